//! The actor behind a command.

use serde::{Deserialize, Serialize};

use crate::{Name, SessionId, TokenId};

/// The authenticated party behind a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Actor {
    /// The holder of a token with the role `admin`, identified by the user's name.
    Admin { name: String },
    /// The holder of a token with any other role. `project` is absent for a token of the platform.
    User {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<Name>,
        token: TokenId,
    },
    /// The holder of a session's own token. It may use the tools, files and events of that session
    /// only.
    Session { session: SessionId },
    /// Stead itself, such as the reconciler or the reaper.
    System,
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Admin { name } => write!(f, "admin:{name}"),
            Self::User { name, project: Some(project), .. } => write!(f, "user:{name}@{project}"),
            Self::User { name, project: None, .. } => write!(f, "user:{name}"),
            Self::Session { session } => write!(f, "session:{session}"),
            Self::System => f.write_str("system"),
        }
    }
}
