//! `stead state SESSION`

use stead_api::session::SessionFold;

use crate::client::segment;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::cell;

#[derive(Debug, clap::Args)]
pub(crate) struct State {
    /// The session's id
    session: String,
}

impl State {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let state: SessionFold = context.client()?.get(&format!("/sessions/{}/state", segment(&self.session)))?;
        context.out.either(&state, || {
            let mut table = Table::of_fields();
            table.row(&["seq", &state.seq.to_string()]);
            table.row(&["state hash", &state.state_hash]);
            if let Some(session) = &state.state {
                table.row(&["status", &cell(&session.status)]);
                table.row(&["degraded", &cell(&session.degraded)]);
                table.row(&["calls", &cell(&session.calls)]);
                table.row(&["refusals", &cell(&session.refusals)]);
                let workspace = session.workspace.as_ref();
                table.row(&["workspace", &cell(&workspace.map(|workspace| workspace.status))]);
                table.row(&["tree hash", &cell(&workspace.map(|workspace| &workspace.tree_hash))]);
                table.row(&["calls under way", &session.open_calls.len().to_string()]);
            }
            context.out.table(&table)?;
            context.out.note("--json prints the whole state");
            Ok(())
        })
    }
}
