//! `stead pool`

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::cell;

const COLUMNS: [&str; 9] =
    ["agent_type", "provider", "target", "ready", "hits", "misses", "fills", "discarded", "oldest_seconds"];

#[derive(Debug, clap::Args)]
pub(crate) struct Pool {}

impl Pool {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let answer = context.client()?.get("/pool")?;
        context.out.either(&answer, || {
            let items = answer["items"].as_array().cloned().unwrap_or_default();
            if items.is_empty() {
                context.out.note("no workspaces are kept ready");
                return Ok(());
            }
            let mut table = Table::new(&COLUMNS);
            for entry in &items {
                let cells = COLUMNS.map(|name| cell(&entry[name]));
                table.row(&cells.each_ref().map(String::as_str));
            }
            context.out.table(&table)
        })
    }
}
