//! An agent type. Its workspace config and the other declared things are sent as they are kept: every field, absent ones with their default.

use serde::{Deserialize, Serialize};
use stead_core::config::WorkspaceConfig;
use stead_core::content::ContentConfig;
use stead_core::env::Env;
use stead_core::registry::{self, Side};
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentType {
    #[schema(value_type = schema::Name)]
    pub id: Name,
    #[schema(required = true)]
    pub name: Option<String>,
    #[schema(required = true)]
    pub description: Option<String>,
    #[schema(value_type = schema::WorkspaceConfig)]
    pub workspace: WorkspaceConfig,
    #[schema(value_type = schema::AgentCapabilities)]
    pub capabilities: Capabilities,
    #[schema(value_type = Option<schema::ContentConfig>, required = true)]
    pub content: Option<ContentConfig>,
    #[schema(value_type = schema::Env)]
    pub env: Env,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    pub sandbox: Sandbox,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sandbox {
    pub workspace_provider: Option<Vec<Side>>,
}

impl From<registry::AgentType> for AgentType {
    fn from(declared: registry::AgentType) -> Self {
        let workspace_provider = declared.capabilities.workspace_provider;
        Self {
            id: declared.id,
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
