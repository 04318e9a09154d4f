//! Who asks.

use serde::{Deserialize, Serialize};

use crate::SessionId;

/// The party behind a request, as it was authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Actor {
    /// The holder of a server token, by the token's name.
    Admin { name: String },
    /// The holder of a session's own token: may use that session's tools, files and events and nothing else.
    Session { session: SessionId },
    /// Stead itself: the reconciler, the reaper.
    System,
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Admin { name } => write!(f, "admin:{name}"),
            Self::Session { session } => write!(f, "session:{session}"),
            Self::System => f.write_str("system"),
        }
    }
}
