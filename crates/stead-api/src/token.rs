//! Tokens, the caller's own identity, and explanations of access.

use serde::{Deserialize, Serialize};
use stead_core::identity::{self, Access, Permission};
use stead_core::{Name, SessionId, Timestamp, TokenId};
use utoipa::ToSchema;

use crate::request::{Kind, Rules, request};
use crate::schema;

/// A token. Its secret is shown only once, when the token is created or rotated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Id of the token.
    #[schema(value_type = schema::TokenId)]
    pub id: TokenId,
    /// Name of the token.
    #[schema(value_type = schema::Name)]
    pub name: Name,
    /// Person or service that holds the token.
    #[schema(value_type = schema::Name)]
    pub user: Name,
    /// Project of the token; `null` for the whole platform.
    #[schema(value_type = Option<schema::Name>, required = true)]
    pub project: Option<Name>,
    /// Role of the token.
    #[schema(value_type = schema::Name)]
    pub role: Name,
    /// Permissions that the token is limited to; `null` for all of its role.
    #[schema(value_type = Option<Vec<schema::Permission>>, required = true)]
    pub operations: Option<Vec<Permission>>,
    /// Agent types that the token is limited to; `null` for all.
    #[schema(value_type = Option<Vec<schema::Name>>, required = true)]
    pub agent_types: Option<Vec<Name>>,
    /// Caller that created the token.
    pub created_by: String,
    /// Time of creation.
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    /// End of the token; `null` if it does not expire.
    #[schema(value_type = Option<schema::Timestamp>, required = true)]
    pub expires_at: Option<Timestamp>,
    /// Time of the last request with the token; `null` if there was none. A crash of the server may
    /// lose the last minute.
    #[schema(value_type = Option<schema::Timestamp>, required = true)]
    pub last_used_at: Option<Timestamp>,
}

impl Token {
    pub fn new(token: identity::Token, last_used_at: Option<Timestamp>) -> Self {
        let identity::Token { id, name, user, project, role, operations, agent_types, .. } = token;
        let (created_by, created_at, expires_at) = (token.created_by, token.created_at, token.expires_at);
        Self {
            id,
            name,
            user,
            project,
            role,
            operations,
            agent_types,
            created_by,
            created_at,
            expires_at,
            last_used_at,
        }
    }
}

/// A token with its secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    #[serde(flatten)]
    pub details: Token,
    /// The token's text, for `Authorization: Bearer`. The server cannot show it again.
    pub token: String,
}

/// A link that signs a browser in once, as the caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SignInLink {
    /// Path and fragment of the link: append it to the server's address. A browser does not send
    /// the fragment, so no log has the code.
    pub path: String,
    /// Time after which the link no longer works.
    #[schema(value_type = schema::Timestamp)]
    pub expires_at: Timestamp,
}

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// The caller as the audit log names it.
    pub actor: String,
    /// Role of the caller. The holder of a session's own token has the role `session`.
    pub role: String,
    /// The caller's only project; `null` for all.
    #[schema(value_type = Option<schema::Name>, required = true)]
    pub project: Option<Name>,
    /// Session of a session token; `null` for other tokens.
    #[schema(value_type = Option<schema::SessionId>, required = true)]
    pub session: Option<SessionId>,
    /// Id of the token; `null` for tokens of the configuration and of sessions.
    #[schema(value_type = Option<schema::TokenId>, required = true)]
    pub token: Option<TokenId>,
    /// End of the token; `null` if it does not expire.
    #[schema(value_type = Option<schema::Timestamp>, required = true)]
    pub expires_at: Option<Timestamp>,
    /// Agent types that the token is limited to; `null` for all.
    #[schema(value_type = Option<Vec<schema::Name>>, required = true)]
    pub agent_types: Option<Vec<Name>>,
    /// Permissions of the caller. Empty for a session token, which is valid for its own session.
    #[schema(value_type = Vec<schema::Permission>)]
    pub permissions: Vec<Permission>,
}

request! {
    /// A question about access: whether a token may do something, and why.
    AccessQuestion {
        /// Permission to ask about, such as `sessions:create`.
        required permission: Permission,
        /// Token to ask about. Absent for the caller's own.
        optional token: TokenId,
        /// Project in which it would be done. Absent for the token's own place.
        optional project: Name,
        /// Session to which it would be done.
        optional session: SessionId,
    }
}

impl Rules for AccessQuestion {
    fn restrict(_: &mut serde_json::Value) {}
}

impl Kind for Permission {
    fn schema() -> serde_json::Value {
        schema::named("Permission")
    }
}

impl Kind for TokenId {
    fn schema() -> serde_json::Value {
        schema::named("TokenId")
    }
}

impl Kind for Name {
    fn schema() -> serde_json::Value {
        schema::named("Name")
    }
}

impl Kind for SessionId {
    fn schema() -> serde_json::Value {
        schema::named("SessionId")
    }
}

/// The answer to a question about access.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccessAnswer {
    /// `allowed`, `forbidden` (403), or `hidden` (404).
    pub access: String,
    /// The reason, in one sentence.
    pub because: String,
    /// Role of the token.
    pub role: String,
    /// Permissions of the token.
    #[schema(value_type = Vec<schema::Permission>)]
    pub permissions: Vec<Permission>,
}

impl AccessAnswer {
    pub fn new(principal: &identity::Principal, access: Access) -> Self {
        let (access, because) = match access {
            Access::Allowed { because } => ("allowed", because),
            Access::Forbidden { because } => ("forbidden", because),
            Access::Hidden { because } => ("hidden", because),
        };
        let permissions = principal.permissions.iter().copied().collect();
        Self { access: access.to_owned(), because, role: principal.role.to_string(), permissions }
    }
}
