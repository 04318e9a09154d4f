//! `stead usage`

mod history;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::{bytes, cell};

/// Shows the disk usage of workspaces, layers, mirrors and blobs on the server, or what sessions
/// reserved in the past.
#[derive(Debug, clap::Args)]
pub(crate) struct Usage {
    #[command(subcommand)]
    command: Option<UsageCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum UsageCommand {
    History(history::History),
}

impl Usage {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        match &self.command {
            Some(UsageCommand::History(history)) => history.run(context),
            None => disk(context),
        }
    }
}

fn disk(context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let usage: stead_api::usage::Usage = context.client()?.get("/usage")?;
    out.either(&usage, || {
        let (workspaces, layers, mirrors) = (&usage.workspaces, &usage.layers, &usage.mirrors);
        let mut parts = Table::new(&["what", "count", "bytes", "in use"]);
        let own = bytes(workspaces.iter().filter_map(|workspace| workspace.own_bytes).sum());
        parts.row(&["workspaces", &workspaces.len().to_string(), &own, &own]);
        parts.row(&["layers", &layers.count.to_string(), &bytes(layers.bytes), &bytes(layers.held_bytes)]);
        let setups = &usage.setup_results;
        parts.row(&["setup results", &setups.count.to_string(), &bytes(setups.bytes), &bytes(setups.held_bytes)]);
        let mirrored = bytes(mirrors.iter().map(|mirror| mirror.bytes).sum());
        let held = bytes(mirrors.iter().filter(|mirror| mirror.held).map(|mirror| mirror.bytes).sum());
        parts.row(&["mirrors", &mirrors.len().to_string(), &mirrored, &held]);
        parts.row(&["blobs", &usage.blobs.count.to_string(), &bytes(usage.blobs.bytes), ""]);
        parts.row(&["total", "", &bytes(usage.total_bytes), ""]);
        out.table(&parts)?;
        if workspaces.is_empty() {
            return Ok(());
        }
        out.heading("\nWorkspaces")?;
        let mut table = Table::new(&["session", "provider", "own", "shared"]);
        for workspace in workspaces {
            let [own, shared] = [workspace.own_bytes, workspace.shared_bytes].map(|size| cell(&size.map(bytes)));
            table.row(&[&cell(&workspace.session), &cell(&workspace.provider), &own, &shared]);
        }
        out.table(&table)
    })
}
