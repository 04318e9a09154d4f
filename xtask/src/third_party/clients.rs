//! The `clients` step: generates a Python and a TypeScript client from the committed API document,
//! compiles them, and runs a small program with each against a real server.
//!
//! The step fails if a generator warns or leaves an operation out, because then the document uses
//! something that clients cannot express.

mod python;
mod typescript;

pub(super) use typescript::PACKAGES;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process::{cache, root};
use crate::server::Server;

pub(super) const DOCUMENT: &str = "docs/api/openapi.json";
const LIMIT: Duration = Duration::from_secs(900);

pub(crate) fn check() -> Result<()> {
    let operations = operations()?;
    let folder = cache().join("clients");
    std::fs::create_dir_all(&folder)?;
    let python = python::generate(&folder, &operations)?;
    let typescript = typescript::generate(&folder, &operations)?;
    println!("{} operations in each client", operations.len());

    let home = tempfile::tempdir()?;
    let server = Server::ready_in(home.path(), "")?;
    let used = python.run_against(&server).and_then(|()| typescript.run_against(&server));
    used.inspect_err(|_| println!("{}", server.log_tail()))?;
    server.stop()?;
    Ok(())
}

/// A compiled program that uses a generated client.
struct Program(Command);

impl Program {
    fn run_against(mut self, server: &Server) -> Result<()> {
        self.0.env("STEAD_URL", format!("http://{}", server.address())).env("STEAD_TOKEN", server.token()?);
        crate::process::run_within(&mut self.0, LIMIT)
    }
}

/// An operation of the document.
struct Operation {
    id: String,
    tag: String,
}

fn operations() -> Result<Vec<Operation>> {
    let text = std::fs::read_to_string(root().join(DOCUMENT)).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let document: Value = serde_json::from_str(&text)?;
    let paths = document["paths"].as_object().context("the document has no paths")?;
    let operations = paths.values().filter_map(Value::as_object).flat_map(|methods| methods.values());
    let named = operations.map(|operation| {
        let text = |value: &Value| value.as_str().map(str::to_owned).with_context(|| format!("no name: {operation}"));
        Ok(Operation { id: text(&operation["operationId"])?, tag: text(&operation["tags"][0])? })
    });
    named.collect()
}

/// Fails with the operations that a generator left out.
fn expect_all(client: &str, operations: &[Operation], has: impl Fn(&Operation) -> bool) -> Result<()> {
    let missing: Vec<&str> =
        operations.iter().filter(|operation| !has(operation)).map(|operation| operation.id.as_str()).collect();
    ensure!(missing.is_empty(), "the {client} client has no {}", missing.join(", "));
    Ok(())
}

/// Copies a file of `tests/clients` to a generated project.
fn copy(name: &str, to: &Path) -> Result<()> {
    let from = root().join("tests/clients").join(name);
    std::fs::copy(&from, to.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}
