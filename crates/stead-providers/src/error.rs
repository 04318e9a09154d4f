//! Why a provider could not do what it was ordered to.

use stead_core::WorkspaceId;
use stead_core::config::ProviderName;
use stead_core::event::Failure;

#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("provider '{provider}' is not part of this server")]
    Absent { provider: ProviderName },
    #[error("provider '{provider}' is unhealthy: {reason}")]
    Unhealthy { provider: ProviderName, reason: String },
    #[error("provider '{provider}' cannot perform '{action}'")]
    Unsupported { provider: ProviderName, action: &'static str },
    #[error("workspace {workspace} is not there")]
    Gone { workspace: WorkspaceId },
    #[error("workspace {workspace} could not be rebuilt from its journal")]
    Rebuild {
        workspace: WorkspaceId,
        #[source]
        source: stead_fs::FsError,
    },
    #[error("cannot write the workspace's files")]
    Files {
        #[source]
        source: stead_fs::FsError,
    },
}

impl ProviderError {
    /// Stable, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "provider_absent",
            Self::Unhealthy { .. } => "provider_unhealthy",
            Self::Unsupported { .. } => "unsupported",
            Self::Gone { .. } => "workspace_gone",
            Self::Rebuild { .. } => "rebuild_failed",
            Self::Files { .. } => "files_failed",
        }
    }

    /// The failure as the journal keeps it, with the whole chain of causes.
    pub fn to_failure(&self) -> Failure {
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Failure::new(self.code(), message)
    }
}
