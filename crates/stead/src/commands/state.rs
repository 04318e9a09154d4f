//! `stead state SESSION`

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
        let state = context.client()?.get(&format!("/sessions/{}/state", segment(&self.session)))?;
        context.out.either(&state, || {
            let mut table = Table::of_fields();
            table.row(&["seq", &cell(&state["seq"])]);
            table.row(&["state hash", &cell(&state["state_hash"])]);
            let session = &state["state"];
            for name in ["status", "degraded", "calls", "refusals"] {
                table.row(&[name, &cell(&session[name])]);
            }
            table.row(&["workspace", &cell(&session["workspace"]["status"])]);
            table.row(&["tree hash", &cell(&session["workspace"]["tree_hash"])]);
            let open = session["open_calls"].as_object().map_or(0, serde_json::Map::len);
            table.row(&["calls under way", &open.to_string()]);
            context.out.table(&table)?;
            context.out.note("--json prints the whole state");
            Ok(())
        })
    }
}
