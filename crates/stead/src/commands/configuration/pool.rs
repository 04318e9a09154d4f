//! `stead pool`

use stead_api::List;
use stead_api::provider::PoolEntry;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::cell;

#[derive(Debug, clap::Args)]
pub(crate) struct Pool {}

impl Pool {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let answer: List<PoolEntry> = context.client()?.get("/pool")?;
        context.out.either(&answer, || {
            if answer.items.is_empty() {
                context.out.note("no agent type has a warm pool");
                return Ok(());
            }
            let mut table = Table::new(&[
                "agent_type",
                "provider",
                "target",
                "ready",
                "hits",
                "misses",
                "fills",
                "discarded",
                "oldest_seconds",
            ]);
            for PoolEntry {
                agent_type, provider, target, ready, hits, misses, fills, discarded, oldest_seconds, ..
            } in &answer.items
            {
                let counts = [target, ready, hits, misses, fills, discarded].map(ToString::to_string);
                let [target, ready, hits, misses, fills, discarded] = counts.each_ref().map(String::as_str);
                let (provider, oldest) = (cell(provider), cell(oldest_seconds));
                table.row(&[agent_type, &provider, target, ready, hits, misses, fills, discarded, &oldest]);
            }
            context.out.table(&table)
        })
    }
}
