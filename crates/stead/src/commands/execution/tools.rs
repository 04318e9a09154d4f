//! `stead tools`

use serde_json::Value;
use stead_api::List;
use stead_api::tool::Tool;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::cell;

#[derive(Debug, clap::Args)]
pub(crate) struct Tools {}

impl Tools {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let answer: List<Tool> = context.client()?.get("/tools")?;
        context.out.either(&answer, || {
            let mut table = Table::new(&["tool", "parameters", "what it does"]);
            for tool in &answer.items {
                table.row(&[&cell(&tool.name), &parameters(&tool.parameters), &cell(&tool.description)]);
            }
            context.out.table(&table)
        })
    }
}

/// Parameter names; a star marks the required ones.
fn parameters(schema: &Value) -> String {
    let part = |name| schema.get(name);
    let required = part("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let names = part("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name);
    let star = |name: &String| if required.iter().any(|one| one == name) { "*" } else { "" };
    names.map(|name| format!("{name}{}", star(name))).collect::<Vec<_>>().join(" ")
}
