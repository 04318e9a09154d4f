//! All settings: defaults, then `stead.toml`, then the environment, then flags; later ones win.
//!
//! Loading reads and merges. Settings that only a server needs are parsed when one starts
//! ([`ServerSettings`]), so a mistake there does not affect clients. Each value keeps its source,
//! so that an error can name it.

mod effective;
mod endpoint;
mod file;
mod git;
mod limits;
mod login;
mod network;
mod podman;
mod server;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) use endpoint::{Endpoint, Resolved, is_loopback, server_url};
use limits::LimitKeys;
pub(crate) use limits::Limits;
pub(crate) use login::{Login, LoginFile};
use podman::PodmanKeys;
pub(crate) use podman::PodmanSettings;
pub(crate) use server::{Listen, ServerSettings};

use crate::failure::Failure;
use crate::home::Home;
use crate::secret::Secret;
use file::{File, TokenEntry};
use git::{CredentialEntry, GitTable};
use network::NetworkTable;

/// Values from the command line.
#[derive(Debug, Default)]
pub(crate) struct Flags {
    pub(crate) home: Option<PathBuf>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) url: Option<String>,
    pub(crate) listen: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Flag(&'static str),
    Environment(&'static str),
    File { key: &'static str, path: PathBuf },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Environment(name) => f.write_str(name),
            Self::File { key, path } => write!(f, "{key} in {}", path.display()),
        }
    }
}

/// A value with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: String,
    pub(crate) source: Source,
}

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) home: Home,
    pub(crate) log: Option<Setting>,
    pub(crate) database_url: Option<Setting>,
    /// `None` if the user has no home directory.
    pub(crate) login_file: Option<LoginFile>,
    url: Option<Setting>,
    token: Option<Secret>,
    listen: Option<Setting>,
    default_cpu: Option<Setting>,
    default_memory: Option<Setting>,
    default_disk: Option<Setting>,
    default_pids: Option<Setting>,
    default_provider: Option<Setting>,
    max_concurrent: Option<Setting>,
    memory_overcommit: Option<Setting>,
    max_upload: Option<Setting>,
    blob_grace_seconds: Option<Setting>,
    secret_key_file: Option<Setting>,
    limits: LimitKeys,
    podman: PodmanKeys,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    preview_domain: Option<Setting>,
    tokens: Vec<TokenEntry>,
    network: NetworkTable,
    git: GitTable,
    git_credentials: Vec<CredentialEntry>,
    git_credentials_file: Option<Setting>,
    file_path: PathBuf,
    home_flag: Option<PathBuf>,
    /// The flag or the variable that names the home. `None` for the default home.
    home_from: Option<&'static str>,
}

/// Reads an environment variable. Tests pass their own function.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<OsString>;

impl Config {
    pub(crate) fn load(flags: &Flags, environment: Environment<'_>) -> Result<Self, Failure> {
        let home = Home::locate(flags.home.as_deref(), environment)?;
        let file_path = flags.config.clone().unwrap_or_else(|| home.path().join("stead.toml"));
        let file = match flags.config {
            Some(_) => File::read(&file_path)?,
            None => File::read_if_there(&file_path)?,
        };
        let merge = Merge { environment, path: &file_path };
        let token = merge.environment("STEAD_TOKEN")?;
        let token = token.map(|setting| {
            let hint = "it is one word, as `stead token show` prints it";
            Secret::read(&setting.value).ok_or_else(|| Failure::new("STEAD_TOKEN is not a token").hint(hint))
        });
        let home_from = match &flags.home {
            Some(_) => Some("--home"),
            None => environment("STEAD_HOME").filter(|path| !path.is_empty()).map(|_| "STEAD_HOME"),
        };
        let flag =
            |name, value: &Option<String>| value.clone().map(|value| Setting { value, source: Source::Flag(name) });
        let merged = |name, key, value: Option<String>| merge.setting(name, key, value);
        Ok(Self {
            url: flag("--url", &flags.url).or(merged("STEAD_URL", "url", file.url)?),
            token: token.transpose()?,
            listen: flag("--listen", &flags.listen).or(merged("STEAD_LISTEN", "listen", file.listen)?),
            database_url: merged("STEAD_DATABASE_URL", "database_url", file.database_url)?,
            log: merged("STEAD_LOG", "log", file.log)?,
            default_cpu: merged("WORKSPACE_DEFAULT_CPU", "workspace_default_cpu", file.workspace_default_cpu)?,
            default_memory: merged(
                "WORKSPACE_DEFAULT_MEMORY",
                "workspace_default_memory",
                file.workspace_default_memory,
            )?,
            default_disk: merged("WORKSPACE_DEFAULT_DISK", "workspace_default_disk", file.workspace_default_disk)?,
            default_pids: merged(
                "WORKSPACE_DEFAULT_PIDS",
                "workspace_default_pids",
                file.workspace_default_pids.map(|number| number.to_string()),
            )?,
            default_provider: merged(
                "WORKSPACE_DEFAULT_PROVIDER",
                "workspace_default_provider",
                file.workspace_default_provider,
            )?,
            max_concurrent: merged(
                "WORKSPACE_MAX_CONCURRENT",
                "workspace_max_concurrent",
                file.workspace_max_concurrent.map(|number| number.to_string()),
            )?,
            memory_overcommit: merged(
                "STEAD_MEMORY_OVERCOMMIT",
                "memory_overcommit",
                file.memory_overcommit.map(|factor| factor.to_string()),
            )?,
            max_upload: merged("STEAD_MAX_UPLOAD", "max_upload", file.max_upload)?,
            blob_grace_seconds: merged(
                "STEAD_BLOB_GRACE_SECONDS",
                "blob_grace_seconds",
                file.blob_grace_seconds.map(|number| number.to_string()),
            )?,
            secret_key_file: merged("STEAD_SECRET_KEY_FILE", "secret_key_file", file.secret_key_file)?,
            limits: LimitKeys::merge(&merge, &file.limits)?,
            podman: PodmanKeys {
                // The second name is the variable of earlier tools of this kind.
                cache: merged("STEAD_CACHE", "cache", file.cache)?.or(merge.environment("WEAKINCENTIVES_CACHE")?),
                base_url: merged("PODMAN_BASE_URL", "podman_base_url", file.podman_base_url)?,
                identity: merged("PODMAN_IDENTITY", "podman_identity", file.podman_identity)?,
                connection: merged("PODMAN_CONNECTION", "podman_connection", file.podman_connection)?,
                runtime: merged("STEAD_PODMAN_RUNTIME", "podman_runtime", file.podman_runtime)?,
                image: merged("STEAD_PODMAN_IMAGE", "podman_image", file.podman_image)?,
                pull: merged("STEAD_PODMAN_PULL", "podman_pull", file.podman_pull)?,
                trees: merged("STEAD_PODMAN_TREES", "podman_trees", file.podman_trees)?,
            },
            allowed_hosts: file.allowed_hosts,
            allowed_origins: file.allowed_origins,
            preview_domain: merged("STEAD_PREVIEW_DOMAIN", "preview_domain", file.preview_domain)?,
            tokens: file.tokens,
            network: file.network,
            git: file.git,
            git_credentials: file.git_credentials,
            git_credentials_file: merged("STEAD_GIT_CREDENTIALS", "git_credentials_file", file.git_credentials_file)?,
            home,
            file_path,
            home_flag: flags.home.clone(),
            home_from,
            login_file: LoginFile::locate(environment),
        })
    }

    /// Command prefix that runs this program with the same home, for commands that the user copies.
    pub(crate) fn program(&self) -> String {
        let typed = std::env::args_os().next().map(PathBuf::from).unwrap_or_else(|| "stead".into());
        let here = std::env::current_dir().unwrap_or_default();
        let shown = typed.strip_prefix(&here).unwrap_or(&typed).display().to_string();
        match &self.home_flag {
            Some(home) => format!("{shown} --home {}", home.display()),
            None => shown,
        }
    }

    /// Path of the settings file, which may not exist.
    pub(crate) fn file_path(&self) -> &Path {
        &self.file_path
    }
}

/// Merges the environment over the file.
struct Merge<'a> {
    environment: Environment<'a>,
    path: &'a Path,
}

impl Merge<'_> {
    fn setting(
        &self,
        name: &'static str,
        key: &'static str,
        in_file: Option<String>,
    ) -> Result<Option<Setting>, Failure> {
        if let Some(setting) = self.environment(name)? {
            return Ok(Some(setting));
        }
        let source = Source::File { key, path: self.path.to_owned() };
        Ok(in_file.map(|value| Setting { value, source }))
    }

    /// An empty variable counts as unset.
    fn environment(&self, name: &'static str) -> Result<Option<Setting>, Failure> {
        let Some(value) = (self.environment)(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        match value.into_string() {
            Ok(value) => Ok(Some(Setting { value, source: Source::Environment(name) })),
            Err(_) => Err(Failure::new(format!("{name} is not valid UTF-8"))),
        }
    }
}
