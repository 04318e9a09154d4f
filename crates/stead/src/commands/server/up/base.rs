//! The agent type `base`: an empty workspace with every tool and with checkpoints.
//!
//! Clients use it for sessions that name no agent type.

use serde_json::{Value, json};
use stead_api::AgentType;
use stead_core::config::ProviderName;

use crate::client::{Client, ClientError};
use crate::failure::Failure;

const BASE: &str = "base";

/// Declares the agent type if it does not exist.
pub(super) fn ensure(client: &Client, provider: ProviderName) -> Result<(), Failure> {
    match client.get::<AgentType>(&format!("/agent-types/{BASE}")) {
        Ok(_) => Ok(()),
        Err(ClientError::Refused(problem)) if problem.status == 404 => {
            match client.post::<AgentType>("/agent-types", &declaration(provider)) {
                // Another client declared it first.
                Err(ClientError::Refused(problem)) if problem.status == 409 => Ok(()),
                Err(error) => Err(error.into()),
                Ok(_) => Ok(()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn declaration(provider: ProviderName) -> Value {
    json!({
        "id": BASE,
        "name": "Base",
        "description": "An empty workspace with every tool and with checkpoints.",
        "workspace": {
            "enabled": true, "provider": provider.as_str(), "workspace_policy": "empty",
            "require_workspace": true, "rewind": {"points": "layers"},
        },
    })
}
