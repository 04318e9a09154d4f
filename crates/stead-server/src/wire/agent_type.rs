//! An agent type. Its workspace config and the other declared things are sent as they are kept: every field, absent ones with their default.

use serde::Serialize;
use stead_core::config::WorkspaceConfig;
use stead_core::content::ContentConfig;
use stead_core::env::Env;
use stead_core::registry::{self, Side};
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::schema;

#[derive(Serialize, ToSchema)]
pub(crate) struct AgentType {
    #[schema(value_type = schema::Name)]
    pub(crate) id: Name,
    #[schema(required = true)]
    name: Option<String>,
    #[schema(required = true)]
    description: Option<String>,
    #[schema(value_type = schema::WorkspaceConfig)]
    pub(crate) workspace: WorkspaceConfig,
    #[schema(value_type = schema::AgentCapabilities)]
    capabilities: Capabilities,
    #[schema(value_type = Option<schema::ContentConfig>, required = true)]
    content: Option<ContentConfig>,
    #[schema(value_type = schema::Env)]
    env: Env,
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    updated_at: Timestamp,
}

#[derive(Serialize)]
struct Capabilities {
    sandbox: Sandbox,
}

#[derive(Serialize)]
struct Sandbox {
    workspace_provider: Option<Vec<Side>>,
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
