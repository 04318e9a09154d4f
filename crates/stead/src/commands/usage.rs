//! `stead usage`

use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::Table;
use crate::render::{bytes, cell};

/// Shows what workspaces, layers, mirrors and blobs take on the server's disk.
#[derive(Debug, clap::Args)]
pub(crate) struct Usage {}

impl Usage {
    pub(crate) fn run(&self, context: &Context) -> Result<(), Failure> {
        let (usage, out) = (context.client()?.get("/usage")?, &context.out);
        out.either(&usage, || {
            let mut parts = Table::new(&["what", "count", "bytes", "in use"]);
            let items = |name: &str| usage[name].as_array().cloned().unwrap_or_default();
            let (workspaces, mirrors) = (items("workspaces"), items("mirrors"));
            let sum = |items: &[Value], name: &str| items.iter().filter_map(|item| item[name].as_u64()).sum::<u64>();
            let held: Vec<Value> = mirrors.iter().filter(|mirror| mirror["held"] == true).cloned().collect();
            let own = bytes(sum(&workspaces, "own_bytes"));
            parts.row(&["workspaces", &workspaces.len().to_string(), &own, &own]);
            let layers = &usage["layers"];
            let number = |value: &Value| bytes(value.as_u64().unwrap_or(0));
            parts.row(&["layers", &cell(&layers["count"]), &number(&layers["bytes"]), &number(&layers["held_bytes"])]);
            let count = mirrors.len().to_string();
            parts.row(&["mirrors", &count, &bytes(sum(&mirrors, "bytes")), &bytes(sum(&held, "bytes"))]);
            parts.row(&["blobs", &cell(&usage["blobs"]["count"]), &number(&usage["blobs"]["bytes"]), ""]);
            parts.row(&["total", "", &number(&usage["total_bytes"]), ""]);
            out.table(&parts)?;
            if workspaces.is_empty() {
                return Ok(());
            }
            out.heading("\nWorkspaces")?;
            let mut table = Table::new(&["session", "provider", "own", "shared"]);
            for workspace in &workspaces {
                let size = |name: &str| workspace[name].as_u64().map_or_else(|| cell(&Value::Null), bytes);
                let (own, shared) = (size("own_bytes"), size("shared_bytes"));
                table.row(&[&cell(&workspace["session"]), &cell(&workspace["provider"]), &own, &shared]);
            }
            out.table(&table)
        })
    }
}
