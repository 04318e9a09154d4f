//! The home, a directory that a server owns: database, blobs, token, and the lock of its owner.
//!
//! Invariant: `server.json` is trusted only while the lock is held. A file left by a crash names a
//! port that any process may use by now.

mod identity;
mod lock;
mod presence;
pub(crate) mod private_file;

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use identity::Identity;
pub(crate) use lock::Lock;

use crate::config::Environment;
use crate::failure::Failure;
use crate::secret::Secret;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home(PathBuf);

/// Address and process of a running server, as stored in `server.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningServer {
    pub(crate) url: String,
    pub(crate) pid: u32,
    pub(crate) started_at: String,
}

impl Home {
    /// Returns the flag, else `STEAD_HOME`, else the user's data directory.
    pub(crate) fn locate(flag: Option<&Path>, environment: Environment<'_>) -> Result<Self, Failure> {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = match flag.map(Path::to_owned).or_else(|| variable("STEAD_HOME")) {
            Some(path) => std::path::absolute(&path).map_err(|error| {
                Failure::new(format!("cannot make the path {} absolute", path.display())).because(&error)
            })?,
            None => {
                let data = variable("XDG_DATA_HOME").filter(|path| path.is_absolute());
                let data = data.or_else(|| variable("HOME").map(|home| home.join(".local/share")));
                data.ok_or_else(|| {
                    Failure::new("cannot choose the home directory of Stead: HOME is not set").hint("set STEAD_HOME")
                })?
                .join("stead")
            }
        };
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.0.join("blobs")
    }

    /// Creates the directory with access for its owner only. An existing one keeps its mode,
    /// because it may have other uses.
    pub(crate) fn create(&self) -> Result<(), Failure> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        // All durable data of the server is below this directory entry.
        let synced = made.and_then(|()| match self.0.parent() {
            Some(parent) => match std::fs::File::open(parent) {
                // If the parent is not readable for this user, its owner must sync it.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                opened => opened?.sync_all(),
            },
            None => Ok(()),
        });
        synced.map_err(|error| {
            Failure::new(format!("cannot make the home {}", self.0.display()))
                .because(&error)
                .hint("set STEAD_HOME to a directory you can write")
        })
    }

    /// The permission bits of an entry of the home; `None` if it does not exist.
    pub(crate) fn mode(&self, name: &str) -> Option<u32> {
        let path = if name.is_empty() { self.0.clone() } else { self.0.join(name) };
        path.metadata().ok().map(|metadata| Permissions::mode(&metadata.permissions()) & 0o777)
    }

    pub(crate) fn lock(&self) -> Result<Lock, Failure> {
        Lock::take(self)
    }

    pub(crate) fn token_path(&self) -> PathBuf {
        self.0.join("token")
    }

    pub(crate) fn token(&self) -> Result<Option<Secret>, Failure> {
        let path = self.token_path();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let hint = "run as the user that started the server, or set STEAD_TOKEN";
                return Err(Failure::new(format!("cannot read the token {}", path.display()))
                    .because(&error)
                    .hint(hint));
            }
        };
        Secret::read(&text).map(Some).ok_or_else(|| {
            Failure::new(format!("{} holds no token", path.display()))
                .hint("remove the file and start the server: it makes a new one")
        })
    }

    /// Returns the admin token, which the first start creates. The caller holds the lock.
    pub(crate) fn token_or_create(&self, _lock: &Lock) -> Result<Secret, Failure> {
        if let Some(token) = self.token()? {
            return Ok(token);
        }
        let token = Secret::draw().map_err(|error| Failure::from_error(&error))?;
        self.write("token", &format!("{}\n", token.expose()))?;
        Ok(token)
    }

    /// Writes `server.json`, so that clients find the server. The caller holds the lock.
    pub(crate) fn announce(&self, server: &RunningServer, _lock: &Lock) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(server).unwrap_or_default();
        self.write("server.json", &format!("{text}\n"))
    }

    /// Removes `server.json`. A file that stays is not trusted once the lock is released.
    pub(crate) fn withdraw(&self, _lock: &Lock) {
        if let Err(error) = std::fs::remove_file(self.0.join("server.json"))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot remove server.json");
        }
    }

    /// Returns true if a server, or a command that needs the home exclusively, holds it.
    pub(crate) fn is_in_use(&self) -> bool {
        Lock::is_held(self)
    }

    /// The server that runs on this home, if any.
    pub(crate) fn running(&self) -> Result<Option<RunningServer>, Failure> {
        if !Lock::is_held(self) {
            return Ok(None);
        }
        let path = self.0.join("server.json");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            // The server has the lock but is still starting, or another user runs it.
            Err(_) => return Ok(None),
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| Failure::new(format!("{} cannot be read", path.display())).because(&error))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        private_file::write(&self.0, name, text.as_bytes())
            .map_err(|error| Failure::new(format!("cannot write {}", self.0.join(name).display())).because(&error))
    }
}
