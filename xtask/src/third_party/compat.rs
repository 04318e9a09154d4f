//! The `compat` step: runs third-party clients and conformance tests against a real server.
//!
//! The clients are the official ones, pinned in `tests/compat`.

mod conformance;
mod file_server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::prerequisites::node::Packages;
use crate::prerequisites::python::COMPAT;
use crate::process::{command, root, run_within};
use crate::server::http::Response;
use crate::server::{self, Server};

const LIMIT: Duration = Duration::from_secs(900);
const PACKAGES: Packages = Packages { folder: "node-compat", source: "tests/compat" };

pub(crate) fn check() -> Result<()> {
    COMPAT.ensure()?;
    let node = PACKAGES.ensure()?;
    let folder = tempfile::tempdir()?;
    // The proxy of the conformance runner listens on another local port.
    let server = Server::ready_in(folder.path(), "allowed_hosts = [\"localhost\", \"127.0.0.1\"]\n")?;
    let tested = all(&server, &node);
    tested.inspect_err(|_| println!("{}", server.log_tail()))?;
    let took = server.stop()?;
    println!("server stopped in {} ms", took.as_millis());
    Ok(())
}

fn all(server: &Server, node: &Path) -> Result<()> {
    let (session, token) = session(server)?;
    let url = format!("http://{}/mcp", server.address());
    let stead = server::binary()?;
    let client = |program: PathBuf| {
        let mut client = command(program);
        client.env("STEAD_TOKEN", &token).env("STEAD_HOME", server.home());
        client
    };
    let script = root().join("tests/compat/mcp_client.py");
    run_within(client(COMPAT.program("python")).arg(&script).args(["http", &url]), LIMIT)?;
    run_within(client(COMPAT.program("python")).arg(&script).arg("stdio").arg(&stead).arg(&session), LIMIT)?;
    run_within(
        client(node.join(".bin/node")).arg(copy_next_to(node, "mcp_client.mjs")?).arg(&url).arg(&stead).arg(&session),
        LIMIT,
    )?;
    conformance::check(server, node)?;
    file_server::check(server, node)?;
    close(server, &session)
}

/// Creates a session with a box and a subset of the tools.
fn session(server: &Server) -> Result<(String, String)> {
    let client = server.client()?;
    let tools = ["bash", "read", "write", "ls", "grep"];
    let workspace = json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "tools": tools});
    made(client.post("/api/v1/agent-types", &json!({"id": "agent", "workspace": workspace}))?)?;
    begin(server, "agent")
}

/// Creates a session, waits until it is ready, and returns its id and token.
fn begin(server: &Server, agent_type: &str) -> Result<(String, String)> {
    let session = made(server.client()?.post("/api/v1/sessions?wait=60", &json!({"agent_type": agent_type}))?)?;
    ensure!(session["status"] == "active" && session["degraded"] == false, "the session is not well: {session}");
    let text =
        |field: &str| session[field].as_str().map(str::to_owned).with_context(|| format!("no {field}: {session}"));
    Ok((text("id")?, text("token")?))
}

fn made(response: Response) -> Result<Value> {
    ensure!(response.status == 201, "{response}");
    response.json()
}

/// Closes a session. A box outlives its server, but a closed session leaves nothing.
fn close(server: &Server, session: &str) -> Result<()> {
    let closed = server.client()?.request("DELETE", &format!("/api/v1/sessions/{session}"), &[], None)?;
    ensure!(closed.status == 204, "{closed}");
    Ok(())
}

/// Copies a script to where Node finds its packages.
fn copy_next_to(modules: &Path, name: &str) -> Result<PathBuf> {
    let copy = modules.with_file_name(name);
    std::fs::copy(root().join("tests/compat").join(name), &copy)?;
    Ok(copy)
}
