//! `stead project ls|get|set|quota|rm`

use serde_json::Value;
use stead_api::project::{ProjectDeletion, ProjectEntry, ProjectView};
use stead_core::registry::Project;

use crate::client::segment;
use crate::commands::configuration::quota::ProjectQuota;
use crate::context::Context;
use crate::failure::Failure;
use crate::json_input::JsonInput;
use crate::output::Table;
use crate::render::{cell, note_more};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ProjectCommand {
    /// List projects
    Ls {
        /// Maximum number of projects to list
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show a project
    Get {
        /// The project's id
        id: String,
    },
    /// Replace a project's settings; fields missing in the JSON are unset
    Set {
        /// The project's id
        id: String,
        #[command(flatten)]
        input: JsonInput,
    },
    Quota(ProjectQuota),
    /// Delete a project with its sessions, agent types, content and tokens
    Rm {
        /// The project's id
        id: String,
        /// Confirm the deletion
        #[arg(long)]
        yes: bool,
    },
}

impl ProjectCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (client, out) = (context.client()?, &context.out);
        let path = |id: &str| format!("/projects/{}", segment(id));
        match self {
            Self::Ls { limit } => ls(context, *limit),
            // A document that users edit and send back: print JSON in both output forms.
            Self::Get { id } => out.json(&client.get::<ProjectView>(&path(id))?),
            Self::Set { id, input } => {
                let body: Value = input.read()?;
                out.json(&client.put::<Project>(&path(id), &body)?)
            }
            Self::Quota(quota) => quota.run(context),
            Self::Rm { id, yes: false } => Err(Failure::usage(format!(
                "this closes every session of '{id}' and deletes its agent types, content and tokens; confirm with --yes"
            ))),
            Self::Rm { id, yes: true } => {
                let deletion: Option<ProjectDeletion> = client.delete(&path(id))?;
                out.either(&deletion, || {
                    let left =
                        deletion.as_ref().map_or((0, 0), |one| (one.remaining_sessions, one.remaining_documents));
                    out.line(&format!("deleting {id}: {} sessions and {} documents are left", left.0, left.1))
                })
            }
        }
    }
}

fn ls(context: &Context, limit: u32) -> Result<(), Failure> {
    let listing = context.client()?.list::<ProjectEntry>("/projects", limit)?;
    context.out.either(&listing, || {
        let mut table = Table::new(&["id", "status"]);
        for project in &listing.items {
            table.row(&[&cell(&project.id), &project.status.to_string()]);
        }
        context.out.table(&table)?;
        note_more(&context.out, &listing);
        Ok(())
    })
}
