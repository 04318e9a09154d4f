//! `stead.toml`. An unknown key is an error, because a silently ignored setting is worse than none.

use std::io;
use std::path::Path;

use serde::Deserialize;

use super::git::{CredentialEntry, GitTable};
use super::limits::LimitTable;
use super::network::NetworkTable;
use crate::failure::Failure;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) url: Option<String>,
    pub(super) listen: Option<String>,
    pub(super) database_url: Option<String>,
    pub(super) log: Option<String>,
    pub(super) workspace_default_cpu: Option<String>,
    pub(super) workspace_default_memory: Option<String>,
    pub(super) workspace_default_disk: Option<String>,
    pub(super) workspace_default_pids: Option<u64>,
    pub(super) workspace_default_provider: Option<String>,
    pub(super) workspace_max_concurrent: Option<u32>,
    pub(super) memory_overcommit: Option<f64>,
    pub(super) max_upload: Option<String>,
    pub(super) blob_grace_seconds: Option<u64>,
    pub(super) secret_key_file: Option<String>,
    pub(super) cache: Option<String>,
    pub(super) podman_base_url: Option<String>,
    pub(super) podman_identity: Option<String>,
    pub(super) podman_connection: Option<String>,
    pub(super) podman_runtime: Option<String>,
    pub(super) podman_image: Option<String>,
    pub(super) podman_pull: Option<String>,
    pub(super) podman_trees: Option<String>,
    #[serde(default)]
    pub(super) allowed_hosts: Vec<String>,
    #[serde(default)]
    pub(super) allowed_origins: Vec<String>,
    pub(super) preview_domain: Option<String>,
    #[serde(default)]
    pub(super) limits: LimitTable,
    #[serde(default)]
    pub(super) network: NetworkTable,
    #[serde(default)]
    pub(super) git: GitTable,
    #[serde(default)]
    pub(super) git_credentials: Vec<CredentialEntry>,
    pub(super) git_credentials_file: Option<String>,
    #[serde(default)]
    pub(super) tokens: Vec<TokenEntry>,
}

/// An admin token as printed by `stead token create --offline`. Only the hash is stored; its owner
/// keeps the token.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenEntry {
    pub(super) name: String,
    pub(super) hash: String,
}

impl File {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) => Err(Failure::new(format!("cannot read {}", path.display())).because(&error)),
        }
    }

    pub(super) fn read_if_there(path: &Path) -> Result<Self, Failure> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Failure::new(format!("cannot read {}", path.display())).because(&error)),
        }
    }

    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        toml::from_str(text).map_err(|error| {
            // The error's own text quotes the line, which may contain a password, so it is not
            // used.
            let before = error.span().map_or(0, |span| span.start);
            let line = text.bytes().take(before).filter(|byte| *byte == b'\n').count() + 1;
            Failure::new(format!("{} line {line}: {}", path.display(), error.message()))
        })
    }
}
