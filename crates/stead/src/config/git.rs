//! Settings for repositories: `[git]` and `[[git_credentials]]` in `stead.toml`. The credentials
//! can be in a file of their own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use stead_core::Name;
use stead_core::identity::Tenant;
use stead_core::quantity::ByteSize;
use stead_git::{Author, Credential, Login, Retention, Secret, Settings};

use super::Config;
use crate::failure::Failure;

/// The `[git]` table; missing values default to [`Settings::new`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GitTable {
    timeout_seconds: Option<u64>,
    stall_seconds: Option<u64>,
    tries: Option<u32>,
    fresh_seconds: Option<u64>,
    /// Number of commits in a checkout; 0 is the whole history.
    depth: Option<u64>,
    max_transfer: Option<String>,
    /// Maximum number of files in a checkout, and their maximum total size.
    max_files: Option<u64>,
    max_checkout: Option<String>,
    /// Hosts besides the repository's own from which its LFS server may let this server download.
    lfs_hosts: Option<Vec<String>>,
    /// Number of packs in a mirror above which they are repacked.
    max_packs: Option<usize>,
    /// Time for which a mirror is kept after the last live session that needs it.
    keep_seconds: Option<u64>,
    /// Maximum total size of such mirrors.
    keep_bytes: Option<String>,
    known_hosts_file: Option<PathBuf>,
    author_name: Option<String>,
    author_email: Option<String>,
}

/// A credential for one host.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CredentialEntry {
    /// `host`, or `host:port` for a non-default port.
    host: String,
    /// The only project whose sessions may use it. Without one, those of every project may.
    project: Option<String>,
    username: Option<String>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    ssh_key_file: Option<PathBuf>,
    /// Allows the token over plain `http://`.
    #[serde(default)]
    over_http: bool,
}

impl CredentialEntry {
    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

impl std::fmt::Debug for CredentialEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CredentialEntry").field("host", &self.host).finish_non_exhaustive()
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialFile {
    #[serde(default)]
    git_credentials: Vec<CredentialEntry>,
}

impl Config {
    /// Settings for fetches and pushes.
    pub(crate) fn git(&self) -> Result<Settings, Failure> {
        let mut settings = Settings::new(self.home.path());
        let table = &self.git;
        let seconds = |given: Option<u64>, usual: Duration| given.map_or(usual, Duration::from_secs);
        settings.timeout = seconds(table.timeout_seconds, settings.timeout);
        settings.stall = seconds(table.stall_seconds, settings.stall);
        settings.fresh = seconds(table.fresh_seconds, settings.fresh);
        settings.tries = table.tries.unwrap_or(settings.tries).max(1);
        if let Some(depth) = table.depth {
            settings.depth = Some(depth).filter(|depth| *depth > 0);
        }
        if let Some(text) = &table.max_transfer {
            settings.most_bytes = self.git_size("max_transfer", text)?;
        }
        settings.most_files = table.max_files.unwrap_or(settings.most_files);
        if let Some(text) = &table.max_checkout {
            settings.most_checkout = self.git_size("max_checkout", text)?;
        }
        settings.lfs_hosts = table.lfs_hosts.clone().unwrap_or_default();
        if let Some(packs) = table.max_packs {
            settings.most_packs = packs.max(1);
        }
        if let Some(path) = &table.known_hosts_file {
            settings.known_hosts = path.clone();
        }
        let usual = settings.author.clone();
        settings.author = Author {
            name: table.author_name.clone().unwrap_or(usual.name),
            email: table.author_email.clone().unwrap_or(usual.email),
        };
        let in_file = self.git_credentials.iter().map(|entry| credential(entry, self.file_path()));
        settings.credentials = in_file.collect::<Result<_, _>>()?;
        if let Some(setting) = &self.git_credentials_file {
            settings.credentials.extend(read_credentials(Path::new(&setting.value))?);
        }
        Ok(settings)
    }
}

impl Config {
    fn git_size(&self, name: &str, text: &str) -> Result<u64, Failure> {
        let size: Result<ByteSize, _> = text.parse();
        let file = self.file_path().display();
        Ok(size.map_err(|error| Failure::new(format!("{file}: git.{name}: {error}")))?.bytes())
    }

    /// Limits for mirrors that no live session needs.
    pub(crate) fn mirror_retention(&self) -> Result<Retention, Failure> {
        let mut retention = Retention::default();
        if let Some(seconds) = self.git.keep_seconds {
            retention.unused = Duration::from_secs(seconds);
            retention.grace = retention.grace.min(retention.unused);
        }
        if let Some(text) = &self.git.keep_bytes {
            retention.bytes = self.git_size("keep_bytes", text)?;
        }
        Ok(retention)
    }
}

fn read_credentials(path: &Path) -> Result<Vec<Credential>, Failure> {
    let unusable =
        |error: &dyn std::error::Error| Failure::new(format!("cannot read {}", path.display())).because(error);
    let text = std::fs::read_to_string(path).map_err(|error| unusable(&error))?;
    let file: CredentialFile = toml::from_str(&text).map_err(|error| {
        // The error's own text quotes the line, which may contain a token, so it is not used.
        let before = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(before).filter(|byte| *byte == b'\n').count() + 1;
        Failure::new(format!("{} line {line}: {}", path.display(), error.message()))
    })?;
    file.git_credentials.iter().map(|entry| credential(entry, path)).collect()
}

fn credential(entry: &CredentialEntry, path: &Path) -> Result<Credential, Failure> {
    let wrong =
        |what: &str| Failure::new(format!("{}: the git credential for {:?} {what}", path.display(), entry.host));
    let plain = !entry.host.is_empty() && !entry.host.contains(['/', '@', ' ']);
    if !plain {
        return Err(wrong("has no valid host: write HOST or HOST:PORT"));
    }
    let host = entry.host.clone();
    let owner = match entry.project.as_deref().map(str::parse::<Name>) {
        None => Tenant::Platform,
        Some(Ok(project)) => Tenant::Project(project),
        Some(Err(error)) => return Err(wrong(&format!("has no valid project: {error}"))),
    };
    let secret = match (&entry.token, &entry.token_file, &entry.ssh_key_file) {
        (None, None, Some(key_file)) => {
            let login = Login::Key { key_file: key_file.clone() };
            return Ok(Credential { owner, host, login });
        }
        (None, Some(file), None) => Secret::File(file.clone()),
        (Some(token), None, None) => {
            let mode = std::fs::metadata(path).map_or(0, |found| found.permissions().mode());
            if mode & 0o077 != 0 {
                let hint = format!("chmod 600 {}, or name a token_file", path.display());
                return Err(wrong("is in a file that others can read").hint(hint));
            }
            Secret::Inline(token.clone())
        }
        _ => return Err(wrong("needs exactly one of token, token_file and ssh_key_file")),
    };
    // The user name that every large forge accepts with a token.
    let username = entry.username.clone().unwrap_or_else(|| "x-access-token".to_owned());
    let login = Login::Password { username, secret, over_http: entry.over_http };
    Ok(Credential { owner, host, login })
}
