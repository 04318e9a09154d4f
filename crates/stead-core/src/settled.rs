//! What is settled of a session's repository: the commit every attempt begins with, and what the agent has pushed.

use serde::{Deserialize, Serialize};

use crate::CallId;

/// What the wanted branch, tag or commit stood for when it was first asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedCommit {
    pub commit: String,
    /// The branch to work on; `None` if a tag or a commit was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The remote's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_branch: Option<String>,
}

/// Commits of the agent's that are at the remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushedBranch {
    pub call: CallId,
    pub branch: String,
    pub commit: String,
    /// The remote had no such branch before.
    #[serde(default)]
    pub made: bool,
    #[serde(default)]
    pub forced: bool,
}
