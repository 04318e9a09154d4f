//! The `schemathesis` step: sends requests that are generated from the served API document to a
//! real server, valid and invalid, alone and in sequences. `tests/api/schemathesis.toml` selects
//! the checks and phases.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::prerequisites::python;
use crate::process::{command, root, run_within};
use crate::server::Server;

pub(crate) fn check() -> Result<()> {
    fuzz(20, Duration::from_secs(1200))
}

pub(crate) fn check_long() -> Result<()> {
    fuzz(1000, Duration::from_secs(3 * 3600))
}

/// The same with the token of each role instead of an administrator's.
pub(crate) fn check_roles() -> Result<()> {
    for role in ["owner", "developer", "viewer", "metrics"] {
        println!("as {role}");
        fuzz_as(Some(role), 50, Duration::from_secs(3600))?;
    }
    Ok(())
}

fn fuzz(examples: u32, limit: Duration) -> Result<()> {
    fuzz_as(None, examples, limit)
}

/// Creates a token of a role. Only `metrics` belongs to no project.
fn member(server: &Server, role: &str) -> Result<String> {
    let admin = server.client()?;
    let made = admin.request("PUT", "/api/v1/projects/web", &[], Some(&json!({})))?;
    ensure!(made.status == 200, "the project was not created: {}", made.status);
    let project = (role != "metrics").then_some("web");
    let made = admin.post("/api/v1/tokens", &json!({"name": role, "role": role, "project": project}))?;
    let token = made.json()?["token"].as_str().map(str::to_owned);
    token.with_context(|| format!("the token was not created: {}", made.status))
}

fn fuzz_as(role: Option<&str>, examples: u32, limit: Duration) -> Result<()> {
    let st = python::API.program("st");
    ensure!(st.exists(), "schemathesis is not installed; run `cargo xtask test --only python`");
    let folder = tempfile::tempdir()?;
    let server = Server::ready_in(folder.path(), "")?;
    let token = match role {
        Some(role) => member(&server, role)?,
        None => server.token()?,
    };

    let result = run_within(
        command(st)
            // Any caches go to the temporary directory.
            .current_dir(folder.path())
            .arg("--config-file")
            .arg(root().join("tests/api/schemathesis.toml"))
            .args(["run", "--max-examples", &examples.to_string()])
            .arg(format!("http://{}/openapi.json", server.address()))
            // The configuration reads the variable, because a secret does not belong in an
            // argument.
            .env("STEAD_TOKEN", token),
        limit,
    );
    result.inspect_err(|_| println!("{}", server.log_tail()))?;
    let took = server.stop()?;
    println!("server stopped in {} ms", took.as_millis());
    Ok(())
}
