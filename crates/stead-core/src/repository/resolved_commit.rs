//! The resolved commit of a session's repository, and the branches that the agent pushed.

use serde::{Deserialize, Serialize};

use crate::CallId;

/// The commit that the requested branch, tag or commit resolved to the first time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedCommit {
    pub commit: String,
    /// The branch to work on. `None` if the request named a tag or a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The default branch of the remote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_branch: Option<String>,
}

/// A branch with commits of the agent that has reached the remote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushedBranch {
    pub call: CallId,
    pub branch: String,
    pub commit: String,
    /// True if the push created the branch.
    #[serde(default)]
    pub made: bool,
    #[serde(default)]
    pub forced: bool,
}
