//! `stead tools`

use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::cell;

#[derive(Debug, clap::Args)]
pub(crate) struct Tools {}

impl Tools {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let answer = context.client()?.get("/tools")?;
        context.out.either(&answer, || {
            let mut table = Table::new(&["tool", "parameters", "what it does"]);
            for tool in answer["items"].as_array().into_iter().flatten() {
                table.row(&[&cell(&tool["name"]), &parameters(&tool["parameters"]), &cell(&tool["description"])]);
            }
            context.out.table(&table)
        })
    }
}

/// The names, with a star on those that must be given.
fn parameters(schema: &Value) -> String {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name);
    let names = names.map(|name| if required.contains(&name.as_str()) { format!("{name}*") } else { name.clone() });
    names.collect::<Vec<_>>().join(" ")
}
