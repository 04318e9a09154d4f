//! Warnings of a session.

use serde::{Deserialize, Serialize};

use crate::event::{Event, Failure};
use crate::parse::words;

words!(
    /// The code of a warning that this version raises. A journal may have others, of earlier
    /// versions, so a recorded code is a text.
    WarningCode, "warning code", {
        /// The fallback provider created the workspace.
        ProviderFallback = "provider_fallback",
        /// A requested provider cannot create this workspace.
        ProviderPassedOver = "provider_passed_over",
        /// The session started without its workspace. A failure has the same code if a workspace is
        /// required.
        WorkspaceUnavailable = "workspace_unavailable",
        LimitNotEnforced = "limit_not_enforced",
        SetupFailed = "setup_failed",
        /// The result of the setup commands is neither kept nor taken from another session.
        SetupCacheUnused = "setup_cache_unused",
        NoRepository = "no_repository",
        RepositoryNotUsed = "repository_not_used",
        HistoryLeftOut = "history_left_out",
        BaseBranchLeftOut = "base_branch_left_out",
        SubmodulesLeftOut = "submodules_left_out",
        LfsLeftOut = "lfs_left_out",
        /// The start of a host directory could not be kept, so there is no diff.
        DiffUnavailable = "diff_unavailable",
        /// The workspace is a host directory that the agent changes itself.
        CheckpointsUnavailable = "checkpoints_unavailable",
        /// The session can reach every public host.
        NetworkFull = "network_full",
        WorkspaceDigestMissing = "workspace_digest_missing",
        /// The content has no index, and its tools were found by their file names.
        LegacyToolsScan = "legacy_tools_scan",
    }
);

impl WarningCode {
    /// The event that raises the warning.
    pub fn raised(self, message: String) -> Event {
        Event::WarningRaised { code: self.to_string(), message }
    }

    /// The warning in the report of an init action.
    pub fn reported(self, message: impl Into<String>) -> Failure {
        Failure::new(self.as_str(), message)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    pub code: String,
    pub message: String,
}

impl Warning {
    pub fn new(code: WarningCode, message: String) -> Self {
        Self { code: code.to_string(), message }
    }

    /// The event that raises the warning.
    pub fn raised(self) -> Event {
        Event::WarningRaised { code: self.code, message: self.message }
    }

    pub fn is(&self, code: WarningCode) -> bool {
        self.code == code.as_str()
    }
}
