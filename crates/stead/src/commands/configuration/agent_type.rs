//! `stead agent-type ls|get|set|create|rm`

use std::time::Duration;

use serde::de::IgnoredAny;
use stead_api::AgentType;
use stead_core::config::WorkspaceConfig;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::in_project::InProject;
use crate::json_input::JsonInput;
use crate::output::Table;
use crate::render::{cell, note_more, short_timestamp};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AgentTypeCommand {
    /// List agent types
    Ls {
        #[command(flatten)]
        place: InProject,
        /// Maximum number of agent types to list
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show an agent type
    Get {
        /// The agent type's id
        id: String,
        /// Show only the workspace config, in the form that `set` takes
        #[arg(long)]
        workspace_config: bool,
        #[command(flatten)]
        place: InProject,
    },
    /// Replace the workspace config of an agent type; running sessions keep theirs
    Set {
        /// The agent type's id
        id: String,
        #[command(flatten)]
        input: JsonInput,
        #[command(flatten)]
        place: InProject,
    },
    /// Declare an agent type: {"id": …, "workspace": {"enabled": true, …}, …}
    Create {
        #[command(flatten)]
        input: JsonInput,
        #[command(flatten)]
        place: InProject,
    },
    /// Remove an agent type that has no live sessions
    Rm {
        /// The agent type's id
        id: String,
        #[command(flatten)]
        place: InProject,
    },
}

impl AgentTypeCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (context.client()?, &context.out);
        let path = |id: &str| format!("/agent-types/{}", segment(id));
        match self {
            Self::Ls { place, limit } => ls(context, place, *limit),
            // Documents that users edit and send back: print JSON in both output forms.
            Self::Get { id, workspace_config: false, place } => {
                out.json(&client.get::<AgentType>(&place.of(&path(id)))?)
            }
            Self::Get { id, workspace_config: true, place } => {
                out.json(&client.get::<WorkspaceConfig>(&place.of(&format!("{}/workspace-config", path(id))))?)
            }
            Self::Set { id, input, place } => {
                let path = place.of(&format!("{}/workspace-config", path(id)));
                let set: WorkspaceConfig = client.put(&path, &input.read()?)?;
                out.json(&set)
            }
            Self::Create { input, place } => {
                let key = uuid::Uuid::now_v7().to_string();
                let made: AgentType = client.create(&place.of("/agent-types"), &input.read()?, &key, Duration::ZERO)?;
                out.either(&made, || out.line(&format!("declared {}", made.id)))
            }
            Self::Rm { id, place } => {
                client.delete::<IgnoredAny>(&place.of(&path(id)))?;
                out.either(&serde_json::json!({"id": id, "removed": true}), || out.line(&format!("removed {id}")))
            }
        }
    }
}

fn ls(context: &Context, place: &InProject, limit: u32) -> Result<(), Failure> {
    let listing = context.client()?.list::<AgentType>(&place.of("/agent-types"), limit)?;
    context.out.either(&listing, || {
        let mut table = Table::new(&["id", "project", "workspace", "provider", "policy", "tools", "changed"]);
        for agent_type in &listing.items {
            let workspace = &agent_type.workspace;
            table.row(&[
                &cell(&agent_type.id),
                &cell(&agent_type.project),
                if workspace.enabled { "on" } else { "off" },
                &cell(&workspace.provider),
                &cell(&workspace.workspace_policy.as_ref().map(|policy| policy.kind())),
                &workspace.tools.as_ref().map_or_else(|| "all".to_owned(), cell),
                &short_timestamp(&agent_type.updated_at),
            ]);
        }
        context.out.table(&table)?;
        note_more(&context.out, &listing);
        Ok(())
    })
}
