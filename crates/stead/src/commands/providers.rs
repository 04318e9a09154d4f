//! `stead providers`

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::cell;

#[derive(Debug, clap::Args)]
pub(crate) struct Providers {}

impl Providers {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let answer = context.client()?.get("/providers")?;
        context.out.either(&answer, || {
            let mut table = Table::new(&["provider", "health", "policies", "tools", "enforced limits"]);
            for provider in answer["items"].as_array().into_iter().flatten() {
                let healthy = provider["healthy"] == true;
                let health = if healthy { "healthy".to_owned() } else { cell(&provider["detail"]) };
                let can = &provider["capabilities"];
                table.row(&[
                    &cell(&provider["name"]),
                    &health,
                    &cell(&can["policies"]),
                    &cell(&can["tools"]),
                    &cell(&can["enforced_limits"]),
                ]);
            }
            context.out.table(&table)
        })
    }
}
