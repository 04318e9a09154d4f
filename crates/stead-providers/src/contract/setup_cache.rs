//! The contract of kept setup results.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use stead_core::setup_cache::{SetupInputs, SetupKey};
use stead_core::{Name, Timestamp};

use crate::contract::error::ProviderError;

/// Prefix of the ids of kept results. No workspace id has it.
pub const SETUP_PREFIX: &str = "setup_";

/// Where a kept result goes among the layers of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupPosition {
    /// Above the other layers: the result belongs to exactly these files.
    Above,
    /// Below them: the files of another commit win over those of the result.
    Below,
}

/// What the list of kept results shows about one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupAbout {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Name>,
    pub agent_type: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    pub commands: Vec<String>,
    pub created_at: Timestamp,
}

/// An order to keep the result of setup commands that have just ended.
#[derive(Debug, Clone)]
pub struct KeepSetupOrder {
    /// Id of the new entry: [`SETUP_PREFIX`], then letters and digits.
    pub entry: String,
    pub key: SetupKey,
    pub place: SetupPosition,
    pub about: SetupAbout,
}

/// The result of keeping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetupKept {
    Kept,
    /// Another session kept a result with this key first.
    Known,
    Refused {
        reason: String,
    },
}

/// A kept result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupEntry {
    pub id: String,
    pub key: SetupKey,
    pub about: SetupAbout,
    pub used_at: Timestamp,
    pub bytes: u64,
    /// Number of workspaces that use it.
    pub users: u64,
}

/// Kept setup results in one workspace.
#[async_trait]
pub trait SetupResults: Send + Sync {
    /// Returns what the key of a result depends on, before the setup commands run.
    async fn inputs(&self, files: Vec<String>) -> Result<SetupInputs, ProviderError>;

    /// Begins with the kept result of this key, and returns its entry. `None` if there is none.
    async fn restore(&self, key: SetupKey, place: SetupPosition) -> Result<Option<String>, ProviderError>;

    /// Keeps what the setup commands wrote to the workspace and the home directory, completely or
    /// not at all. The workspace goes on with the kept files.
    async fn keep(&self, order: KeepSetupOrder) -> Result<SetupKept, ProviderError>;
}
