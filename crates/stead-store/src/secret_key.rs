//! The key under which the values of secrets are sealed in the database.
//!
//! The key is a file outside the database, so that a copy of the database reveals no value. A
//! second file beside it, with the suffix `.next`, exists while the secrets are sealed again under
//! a new key. A crash in the middle leaves both, and each sealed value names its key.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use stead_core::secret::{SealedSecret, SecretValue};

const KEY_LENGTH: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum SecretKeyError {
    #[error(
        "the key of the secrets is missing: there is no file {path}, and the stored secrets cannot be opened without it; \
         restore it from a copy, or remove every secret and set them again"
    )]
    Missing { path: PathBuf },
    #[error("{path} holds no key: it must have 64 hexadecimal digits; restore it from a copy")]
    Damaged { path: PathBuf },
    #[error("{path} is open to other users (mode {mode:03o}); run chmod 600 on it")]
    Exposed { path: PathBuf, mode: u32 },
    #[error("cannot {doing} {path}")]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the secret '{name}' does not open: it was sealed under another key, or its record was changed")]
    DoesNotOpen { name: String },
    #[error("the system gives no random bytes")]
    Randomness,
}

/// The keys of a server: the one in use, and the next one while a change of keys is in progress.
pub struct SecretKeys {
    path: PathBuf,
    current: Key,
    next: Option<Key>,
}

struct Key {
    id: String,
    sealing: LessSafeKey,
}

impl SecretKeys {
    /// Reads the keys. `None` if there is no file.
    pub fn read(path: &Path) -> Result<Option<Self>, SecretKeyError> {
        let Some(current) = Key::read(path)? else { return Ok(None) };
        Ok(Some(Self { path: path.to_owned(), current, next: Key::read(&next_to(path))? }))
    }

    /// Reads the keys, or creates a first one. The caller knows that nothing is sealed yet.
    pub fn read_or_create(path: &Path) -> Result<Self, SecretKeyError> {
        if let Some(keys) = Self::read(path)? {
            return Ok(keys);
        }
        create(path)?;
        Self::read(path)?.ok_or_else(|| SecretKeyError::Missing { path: path.to_owned() })
    }

    /// Adds a next key, under which everything is sealed from then on.
    pub fn with_next(self) -> Result<Self, SecretKeyError> {
        if self.next.is_none() {
            create(&next_to(&self.path))?;
        }
        Self::read(&self.path)?.ok_or(SecretKeyError::Missing { path: self.path })
    }

    /// Makes the next key the only one. The caller has sealed everything under it.
    pub fn finish(self) -> Result<Self, SecretKeyError> {
        if self.next.is_some() {
            let next = next_to(&self.path);
            fs::rename(&next, &self.path).map_err(failed("replace", &self.path))?;
            sync_directory(&self.path)?;
        }
        Self::read(&self.path)?.ok_or(SecretKeyError::Missing { path: self.path })
    }

    /// Returns the id of the key that seals.
    pub fn sealing_id(&self) -> &str {
        &self.newest().id
    }

    fn newest(&self) -> &Key {
        self.next.as_ref().unwrap_or(&self.current)
    }

    /// Seals a value for everything that the record says about it.
    pub fn seal(&self, record: SealedSecret, value: &SecretValue) -> Result<SealedSecret, SecretKeyError> {
        let key = self.newest();
        let sealed = key.seal(&record.associated_data(), value.expose().as_bytes())?;
        Ok(SealedSecret { key: key.id.clone(), sealed: hex(&sealed), ..record })
    }

    /// Opens a value. It opens only for the name, the project, the version and the binding that it
    /// was sealed for.
    pub fn open(&self, record: &SealedSecret) -> Result<SecretValue, SecretKeyError> {
        let does_not_open = || SecretKeyError::DoesNotOpen { name: record.name.to_string() };
        let key = [Some(&self.current), self.next.as_ref()].into_iter().flatten().find(|key| key.id == record.key);
        let sealed = unhex(&record.sealed).ok_or_else(does_not_open)?;
        let opened = key.and_then(|key| key.open(&record.associated_data(), sealed)).ok_or_else(does_not_open)?;
        SecretValue::parse(opened).map_err(|_| does_not_open())
    }

    /// Seals other bytes, such as a private key of a session, for a purpose that the label names.
    pub fn seal_bytes(&self, label: &str, bytes: &[u8]) -> Result<String, SecretKeyError> {
        let key = self.newest();
        Ok(format!("{}:{}", key.id, hex(&key.seal(label.as_bytes(), bytes)?)))
    }

    /// Opens such bytes. `None` if they were sealed for another purpose or under another key.
    pub fn open_bytes(&self, label: &str, sealed: &str) -> Option<Vec<u8>> {
        let (id, digits) = sealed.split_once(':')?;
        let key = [Some(&self.current), self.next.as_ref()].into_iter().flatten().find(|key| key.id == id)?;
        key.open_raw(label.as_bytes(), unhex(digits)?)
    }
}

impl fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKeys({})", self.sealing_id())
    }
}

impl Key {
    fn read(path: &Path) -> Result<Option<Self>, SecretKeyError> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => zeroize::Zeroizing::new(read.map_err(failed("read", path))?),
        };
        let mode = fs::metadata(path).map_err(failed("read", path))?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(SecretKeyError::Exposed { path: path.to_owned(), mode });
        }
        let damaged = || SecretKeyError::Damaged { path: path.to_owned() };
        let bytes =
            zeroize::Zeroizing::new(unhex(text.trim()).filter(|bytes| bytes.len() == KEY_LENGTH).ok_or_else(damaged)?);
        let id = blake3::derive_key("stead 2026-11 id of a secret key", &bytes);
        let sealing = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| damaged())?);
        Ok(Some(Self { id: hex(&id[..8]), sealing }))
    }

    /// Returns the nonce and the ciphertext.
    fn seal(&self, associated: &[u8], bytes: &[u8]) -> Result<Vec<u8>, SecretKeyError> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SecretKeyError::Randomness)?;
        let mut sealed = bytes.to_vec();
        let nonced = Nonce::assume_unique_for_key(nonce);
        let done = self.sealing.seal_in_place_append_tag(nonced, Aad::from(associated), &mut sealed);
        done.map_err(|_| SecretKeyError::Randomness)?;
        Ok([&nonce[..], &sealed].concat())
    }

    fn open(&self, associated: &[u8], sealed: Vec<u8>) -> Option<String> {
        String::from_utf8(self.open_raw(associated, sealed)?).ok()
    }

    fn open_raw(&self, associated: &[u8], sealed: Vec<u8>) -> Option<Vec<u8>> {
        let (nonce, ciphertext) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut buffer = zeroize::Zeroizing::new(ciphertext.to_vec());
        let opened = self.sealing.open_in_place(nonce, Aad::from(associated), &mut buffer).ok()?;
        Some(opened.to_vec())
    }
}

fn next_to(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".next");
    name.into()
}

/// Creates a key file that did not exist.
fn create(path: &Path) -> Result<(), SecretKeyError> {
    let mut bytes = zeroize::Zeroizing::new([0; KEY_LENGTH]);
    SystemRandom::new().fill(&mut bytes[..]).map_err(|_| SecretKeyError::Randomness)?;
    let text = zeroize::Zeroizing::new(format!("{}\n", hex(&bytes[..])));
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let written = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    written().map_err(failed("write", path))?;
    sync_directory(path)
}

fn sync_directory(path: &Path) -> Result<(), SecretKeyError> {
    let directory = path.parent().unwrap_or(path);
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed("write", path))
}

fn failed<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> SecretKeyError + 'a {
    move |source| SecretKeyError::File { doing, path: path.to_owned(), source }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use stead_core::Timestamp;

    use super::*;

    fn record(name: &str) -> SealedSecret {
        let binding = serde_json::from_value(serde_json::json!({"hosts": ["a.example"]})).unwrap();
        let at = Timestamp::from_millis(0);
        SealedSecret {
            name: name.parse().unwrap(),
            project: None,
            version: 1,
            binding,
            created_at: at,
            updated_at: at,
            key: String::new(),
            sealed: String::new(),
        }
    }

    fn value(text: &str) -> SecretValue {
        SecretValue::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn sealed_row_moved_renamed_or_widened_does_not_open() {
        let home = tempfile::tempdir().unwrap();
        let keys = SecretKeys::read_or_create(&home.path().join("secret.key")).unwrap();
        let sealed = keys.seal(record("github"), &value("canary-value")).unwrap();
        assert_eq!(keys.open(&sealed).unwrap(), value("canary-value"));
        assert!(!sealed.sealed.contains("canary"));
        let mut wide = sealed.clone();
        wide.binding.hosts.push("b.example".parse().unwrap());
        let mut over_http = sealed.clone();
        over_http.binding.over_http = true;
        let changed = [
            SealedSecret { name: "gitlab".parse().unwrap(), ..sealed.clone() },
            SealedSecret { project: Some("web".parse().unwrap()), ..sealed.clone() },
            SealedSecret { version: 2, ..sealed.clone() },
            SealedSecret { sealed: sealed.sealed[2..].to_owned(), ..sealed.clone() },
            SealedSecret { sealed: String::new(), ..sealed.clone() },
            SealedSecret { key: "00".to_owned(), ..sealed.clone() },
            wide,
            over_http,
        ];
        for one in changed {
            assert!(matches!(keys.open(&one), Err(SecretKeyError::DoesNotOpen { .. })), "{one:?}");
        }
    }

    #[test]
    fn a_change_of_keys_can_stop_anywhere() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secret.key");
        let keys = SecretKeys::read_or_create(&path).unwrap();
        let old = keys.seal(record("old"), &value("canary-old")).unwrap();
        let keys = keys.with_next().unwrap();
        let new = keys.seal(record("new"), &value("canary-new")).unwrap();
        assert_ne!(old.key, new.key);
        // A restart in the middle knows both.
        let keys = SecretKeys::read(&path).unwrap().unwrap();
        assert_eq!(keys.open(&old).unwrap(), value("canary-old"));
        assert_eq!(keys.open(&new).unwrap(), value("canary-new"));
        let keys = keys.finish().unwrap();
        assert!(keys.open(&old).is_err());
        assert_eq!(keys.open(&new).unwrap(), value("canary-new"));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_none_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secret.key");
        assert!(SecretKeys::read(&path).unwrap().is_none());
        SecretKeys::read_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(SecretKeys::read(&path), Err(SecretKeyError::Exposed { mode: 0o640, .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "no key").unwrap();
        assert!(matches!(SecretKeys::read(&path), Err(SecretKeyError::Damaged { .. })));
    }

    #[test]
    fn other_bytes_open_for_their_purpose_only() {
        let home = tempfile::tempdir().unwrap();
        let keys = SecretKeys::read_or_create(&home.path().join("secret.key")).unwrap();
        let sealed = keys.seal_bytes("ca of one", b"key").unwrap();
        assert_eq!(keys.open_bytes("ca of one", &sealed).unwrap(), b"key");
        assert_eq!(keys.open_bytes("ca of two", &sealed), None);
    }
}
