//! The server's signing key, and the record of the last seal beside it.
//!
//! Both are files in the home directory, outside the database: `ledger.key` (mode 0600) and
//! `ledger.head`. The record reveals a database that was cut back to an earlier seal, which its
//! signatures alone cannot reveal.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::journal::chain::Hash;
use crate::ledger::seal::Seal;

const KEY: &str = "ledger.key";
const HEAD: &str = "ledger.head";
const PREFIX: &str = "ed25519:";

/// An Ed25519 public key. Its text is `ed25519:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a public key is 32 bytes, in text \"ed25519:\" and 64 lower-case hexadecimal digits")]
pub struct InvalidPublicKey;

/// The number and the hash of a seal, stored outside the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor {
    pub number: i64,
    pub hash: Hash,
}

#[derive(Debug, thiserror::Error)]
pub enum SealerError {
    #[error("cannot {doing} {path}")]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{path} holds no Ed25519 key; restore it from a copy, or remove it and start the server, which makes a new one"
    )]
    DamagedKey { path: PathBuf },
    #[error("{path} names no seal; restore it from a copy")]
    DamagedHead { path: PathBuf },
    #[error("the system gives no random bytes for a signing key")]
    Randomness,
}

/// Signs heads of the ledger.
pub struct Sealer {
    directory: PathBuf,
    key: Ed25519KeyPair,
    /// The last seal that the home directory records.
    noted: Mutex<Option<Anchor>>,
}

impl Sealer {
    /// Reads the key in a directory, or creates one. The caller holds the lock of the directory.
    pub fn open(directory: &Path) -> Result<Self, SealerError> {
        let path = directory.join(KEY);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let drawn =
                    Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| SealerError::Randomness)?;
                write(directory, KEY, drawn.as_ref())?;
                drawn.as_ref().to_vec()
            }
            read => read.map_err(failed("read", &path))?,
        };
        let key = Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| SealerError::DamagedKey { path })?;
        let noted = Mutex::new(Self::anchor_in(directory)?);
        Ok(Self { directory: directory.to_owned(), key, noted })
    }

    /// The public key of the key in a directory. `None` if there is no key.
    pub fn public_key_in(directory: &Path) -> Result<Option<PublicKey>, SealerError> {
        if directory.join(KEY).exists() {
            Self::open(directory).map(|sealer| Some(sealer.public_key()))
        } else {
            Ok(None)
        }
    }

    /// The last seal that a server recorded in a directory.
    pub fn anchor_in(directory: &Path) -> Result<Option<Anchor>, SealerError> {
        let path = directory.join(HEAD);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(failed("read", &path))?,
        };
        let parsed = text
            .trim()
            .split_once(' ')
            .and_then(|(number, hash)| Some(Anchor { number: number.parse().ok()?, hash: hash.parse().ok()? }));
        parsed.map(Some).ok_or(SealerError::DamagedHead { path })
    }

    pub fn public_key(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.key.public_key().as_ref());
        PublicKey(bytes)
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.key.sign(message).as_ref().to_vec()
    }

    /// The last seal that the home directory records.
    pub fn noted(&self) -> Option<Anchor> {
        *self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a seal that is durable in the database.
    pub(crate) fn note(&self, seal: &Seal) -> Result<(), SealerError> {
        write(&self.directory, HEAD, format!("{} {}\n", seal.number, seal.hash).as_bytes())?;
        self.remember(Some(Anchor { number: seal.number, hash: seal.hash }));
        Ok(())
    }

    /// Forgets the recorded seal in memory, so that the next seal is accepted although the database
    /// lacks the recorded one. The file stays until then.
    pub(crate) fn forget(&self) {
        self.remember(None);
    }

    fn remember(&self, anchor: Option<Anchor>) {
        *self.noted.lock().unwrap_or_else(PoisonError::into_inner) = anchor;
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealer({})", self.public_key())
    }
}

fn failed<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> SealerError + 'a {
    move |source| SealerError::File { doing, path: path.to_owned(), source }
}

/// Writes to a temporary file and renames it, so that a reader or a crash sees the old file or the
/// new one.
fn write(directory: &Path, name: &str, bytes: &[u8]) -> Result<(), SealerError> {
    let (draft, path) = (directory.join(format!(".{name}.new")), directory.join(name));
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        File::open(directory)?.sync_all()
    };
    written().map_err(failed("write", &path))
}

impl PublicKey {
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }
}

impl TryFrom<&[u8]> for PublicKey {
    type Error = InvalidPublicKey;

    fn try_from(bytes: &[u8]) -> Result<Self, InvalidPublicKey> {
        bytes.try_into().map(Self).map_err(|_| InvalidPublicKey)
    }
}

impl FromStr for PublicKey {
    type Err = InvalidPublicKey;

    fn from_str(text: &str) -> Result<Self, InvalidPublicKey> {
        // The digits have the same form as a hash, and only the prefix differs.
        let digits = text.strip_prefix(PREFIX).ok_or(InvalidPublicKey)?;
        let parsed: Hash = format!("blake3:{digits}").parse().map_err(|_| InvalidPublicKey)?;
        Ok(Self(*parsed.as_bytes()))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_key_is_made_once_for_its_owner_alone_and_its_signatures_hold() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(Sealer::public_key_in(home.path()).unwrap(), None);
        let sealer = Sealer::open(home.path()).unwrap();
        let mode = fs::metadata(home.path().join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let key = Sealer::open(home.path()).unwrap().public_key();
        assert_eq!(key, sealer.public_key());
        assert_eq!(key.to_string().parse(), Ok(key));
        let signature = sealer.sign(b"a head");
        assert!(key.verifies(b"a head", &signature));
        assert!(!key.verifies(b"another head", &signature));
        fs::write(home.path().join(KEY), "no key").unwrap();
        assert!(matches!(Sealer::open(home.path()), Err(SealerError::DamagedKey { .. })));
    }
}
