//! The actor behind a command.

use serde::{Deserialize, Serialize};

use crate::{Name, SessionId, TokenId};

/// The authenticated party behind a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Actor {
    /// The holder of a token with the role `admin`, identified by the user's name.
    /// `token` is absent for a token of the server's configuration, which has no id.
    Admin {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<TokenId>,
    },
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

impl Actor {
    /// Returns the id of the token that the actor used. `None` for tokens without an id: those of
    /// the server's configuration and those of sessions.
    pub fn token(&self) -> Option<TokenId> {
        match self {
            Self::Admin { token, .. } => *token,
            Self::User { token, .. } => Some(*token),
            Self::Session { .. } | Self::System => None,
        }
    }
}

impl std::fmt::Display for Actor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Admin { name, .. } => write!(f, "admin:{name}"),
            Self::User { name, project: Some(project), .. } => write!(f, "user:{name}@{project}"),
            Self::User { name, project: None, .. } => write!(f, "user:{name}"),
            Self::Session { session } => write!(f, "session:{session}"),
            Self::System => f.write_str("system"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_of_an_earlier_version_keeps_its_bytes() {
        let recorded = r#"{"kind":"admin","name":"ops"}"#;
        let actor: Actor = serde_json::from_str(recorded).unwrap();
        assert_eq!(actor.token(), None);
        assert_eq!(serde_json::to_string(&actor).unwrap(), recorded);
        let token = TokenId::from_bits(1);
        let actor = Actor::Admin { name: "ops".to_owned(), token: Some(token) };
        assert_eq!((actor.token(), actor.to_string().as_str()), (Some(token), "admin:ops"));
    }
}
