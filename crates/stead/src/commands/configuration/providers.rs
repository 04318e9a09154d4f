//! `stead providers`

use stead_api::List;
use stead_api::provider::Provider;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::cell;

#[derive(Debug, clap::Args)]
pub(crate) struct Providers {}

impl Providers {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let answer: List<Provider> = context.client()?.get("/providers")?;
        context.out.either(&answer, || {
            let mut table = Table::new(&["provider", "health", "policies", "tools", "enforced limits"]);
            for provider in &answer.items {
                let health = if provider.healthy { "healthy".to_owned() } else { cell(&provider.detail) };
                let can = &provider.capabilities;
                let limits = cell(&can.enforced_limits);
                table.row(&[&cell(&provider.name), &health, &cell(&can.policies), &cell(&can.tools), &limits]);
            }
            context.out.table(&table)
        })
    }
}
