//! `stead setup-cache …`: kept results of setup commands.

use serde::de::IgnoredAny;
use serde_json::json;
use stead_api::List;
use stead_api::provider::SetupResult;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::{Mark, Table};
use crate::render::{bytes, cell, short_timestamp, shortened};

/// Characters of the commands in the list.
const WIDTH: usize = 60;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum SetupCacheCommand {
    /// List the kept results, the most recently used first
    Ls,
    /// Remove a kept result; sessions that began with it keep their files
    Rm {
        /// Id of the result, from `stead setup-cache ls`
        id: String,
    },
}

impl SetupCacheCommand {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Ls => ls(context),
            Self::Rm { id } => {
                context.client()?.delete::<IgnoredAny>(&format!("/setup-results/{}", segment(id)))?;
                let gone = json!({"id": id, "removed": true});
                context.out.either(&gone, || context.out.marked(Mark::Good, &format!("{id} is gone")))
            }
        }
    }
}

fn ls(context: &Context) -> Result<(), Failure> {
    let answer: List<SetupResult> = context.client()?.get("/setup-results")?;
    context.out.either(&answer, || {
        if answer.items.is_empty() {
            context.out.note("no setup result is kept; set setup_cache in an agent type");
            return Ok(());
        }
        let mut table = Table::new(&["id", "provider", "project", "agent", "size", "in use", "last used", "commands"]);
        for result in &answer.items {
            table.row(&[
                &result.id,
                &cell(&result.provider),
                &cell(&result.project),
                &cell(&result.agent_type),
                &bytes(result.bytes),
                &result.users.to_string(),
                &short_timestamp(&result.used_at),
                &shortened(&cell(&result.commands.join(" && ")), WIDTH),
            ]);
        }
        context.out.table(&table)
    })
}
