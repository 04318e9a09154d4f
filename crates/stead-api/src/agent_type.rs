//! Agent types as the API returns them. The response contains every field; a field that the
//! declaration omitted has its default.

use serde::{Deserialize, Serialize};
use stead_core::config::WorkspaceConfig;
use stead_core::content::ContentConfig;
use stead_core::env::Env;
use stead_core::registry::{self, Side};
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::schema;

/// A named configuration from which sessions are created.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentType {
    /// Unique id of the agent type.
    #[schema(value_type = schema::Name)]
    pub id: Name,
    /// Project that the agent type belongs to; `null` for the platform.
    #[schema(value_type = Option<schema::Name>, required = true)]
    pub project: Option<Name>,
    /// Display name; `null` if none was declared.
    #[schema(required = true)]
    pub name: Option<String>,
    /// Description for people; `null` if none was declared.
    #[schema(required = true)]
    pub description: Option<String>,
    /// Workspace configuration with every default filled in.
    #[schema(value_type = schema::WorkspaceConfig)]
    pub workspace: WorkspaceConfig,
    /// Kinds of workspace that this agent type can work in.
    #[schema(value_type = schema::AgentCapabilities)]
    pub capabilities: Capabilities,
    /// Content that sessions of this agent type load; `null` if none was declared.
    #[schema(value_type = Option<schema::ContentConfig>, required = true)]
    pub content: Option<ContentConfig>,
    /// Environment variables for the box of each session.
    #[schema(value_type = schema::Env)]
    pub env: Env,
    /// Time of the declaration.
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
}

/// Capabilities of an agent type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    pub sandbox: Sandbox,
}

/// Sides that may provide the workspace's files: the host, the guest or both. `None` leaves the
/// choice to the provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sandbox {
    pub workspace_provider: Option<Vec<Side>>,
}

impl From<registry::AgentType> for AgentType {
    fn from(declared: registry::AgentType) -> Self {
        let workspace_provider = declared.capabilities.workspace_provider;
        Self {
            id: declared.id,
            project: declared.project,
            name: declared.name,
            description: declared.description,
            workspace: declared.workspace,
            capabilities: Capabilities { sandbox: Sandbox { workspace_provider } },
            content: declared.content,
            env: declared.env,
            created_at: declared.created_at,
            updated_at: declared.updated_at,
        }
    }
}
