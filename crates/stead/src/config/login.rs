//! The login: URL and token of a server, in a file of the user's configuration directory.
//!
//! The file has mode 0600. A file that others can read, or that another user owns, is refused,
//! because another user may know its token or have chosen its URL.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Environment;
use crate::failure::Failure;
use crate::home::private_file;
use crate::secret::Secret;

const NAME: &str = "login.json";

/// The place of the login file. There may be no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoginFile(PathBuf);

/// The server that the user signed in to.
#[derive(Debug, Clone)]
pub(crate) struct Login {
    pub(crate) url: String,
    pub(crate) token: Secret,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    url: String,
    token: String,
}

impl LoginFile {
    /// Returns the file in `XDG_CONFIG_HOME`, else in `~/.config`. `None` without a home directory.
    pub(super) fn locate(environment: Environment<'_>) -> Option<Self> {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        let folder = folder.or_else(|| variable("HOME").map(|home| home.join(".config")))?;
        Some(Self(folder.join("stead").join(NAME)))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the login, or `None` if there is no file.
    pub(crate) fn read(&self) -> Result<Option<Login>, Failure> {
        let shown = self.0.display();
        let failed = |error: io::Error| Failure::new(format!("cannot read the login {shown}")).because(&error);
        let follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let mut file = match OpenOptions::new().read(true).custom_flags(follow).open(&self.0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let metadata = file.metadata().map_err(failed)?;
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
        if owner != rustix::process::geteuid().as_raw() {
            return Err(Failure::new(format!("the login {shown} is not used: it belongs to the user with id {owner}"))
                .hint("remove the file, then run `stead login URL` as the user that needs it"));
        }
        if mode & 0o077 != 0 {
            return Err(Failure::new(format!("the login {shown} is not used: others can access it (mode {mode:04o})"))
                .hint(format!("run `chmod 600 {shown}`; if others may have read the token, replace it")));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let damaged = || {
            let hint = "run `stead login URL` with the URL of the server, or `stead logout`";
            Failure::new(format!("the login {shown} is damaged")).hint(hint)
        };
        // The error's own text may quote the token, so it is not used.
        let Stored { url, token } = serde_json::from_str(&text).map_err(|_| damaged())?;
        Ok(Some(Login { url, token: Secret::read(&token).ok_or_else(damaged)? }))
    }

    pub(crate) fn write(&self, login: &Login) -> Result<(), Failure> {
        let failed =
            |error: io::Error| Failure::new(format!("cannot write the login {}", self.0.display())).because(&error);
        let folder = self.0.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let stored = Stored { url: login.url.clone(), token: login.token.expose().to_owned() };
        let text = serde_json::to_string_pretty(&stored).unwrap_or_default();
        private_file::write(folder, NAME, format!("{text}\n").as_bytes()).map_err(failed)
    }

    /// Removes the file. Returns false if there was none.
    pub(crate) fn remove(&self) -> Result<bool, Failure> {
        match std::fs::remove_file(&self.0) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Failure::new(format!("cannot remove {}", self.0.display())).because(&error)),
        }
    }
}
