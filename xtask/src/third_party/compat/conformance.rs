//! Runs the official conformance runner against `/mcp`.
//!
//! The runner calls tools and prompts by fixed names, so its session must have them. Its content
//! (`tests/compat/conformance`) lists them, and its agent type binds the tools to an MCP server
//! (`tests/compat/conformance_server.py`). So the calls pass through the session's checks and
//! journal. `tests/compat/conformance.yml` lists the scenarios that cannot apply, with the reason.
//! A listed scenario that passes fails the step.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::{LIMIT, begin, close, made};
use crate::process::{command, root, run_within};
use crate::server::{self, Server};

pub(super) fn check(server: &Server, node: &Path) -> Result<()> {
    let (session, token) = session(server)?;
    run(server, node, &token)?;
    close(server, &session)
}

/// Creates a session whose catalog and prompt packs have the runner's names.
fn session(server: &Server) -> Result<(String, String)> {
    let content = root().join("tests/compat/conformance");
    let catalog: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(content.join("tools.json"))?)?;
    let tools: Vec<&str> = catalog.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let bindings: Map<String, Value> =
        tools.iter().map(|&tool| (tool.to_owned(), json!({"mcp": "runner", "tool": tool}))).collect();
    let program = json!(["python3", root().join("tests/compat/conformance_server.py")]);
    let client = server.client()?;
    // The content has a binary file, which a JSON body cannot hold.
    let mut push = command(server::binary()?);
    push.args(["content", "push", "--name", "conformance"]).arg(&content).env("STEAD_HOME", server.home());
    run_within(&mut push, LIMIT)?;
    let agent_type = json!({
        "id": "conformance",
        "workspace": {"enabled": true, "provider": "memory", "workspace_policy": "empty", "tools": ["ls", "read"]},
        "content": {
            "workspace": "conformance", "bindings": bindings,
            "mcp_servers": {"runner": {"command": program, "tools": tools}},
        },
    });
    made(client.post("/api/v1/agent-types", &agent_type)?)?;
    begin(server, "conformance")
}

fn run(server: &Server, node: &Path, token: &str) -> Result<()> {
    let mut proxy = Proxy::start(server, node, token)?;
    let runner = node.join("@modelcontextprotocol/conformance/dist/index.js");
    let results = tempfile::tempdir()?;
    let ran = run_within(
        command(node.join(".bin/node"))
            .arg(runner)
            .args(["server", "--suite", "all", "--url", &format!("http://localhost:{}/mcp", proxy.port)])
            .arg("--expected-failures")
            .arg(root().join("tests/compat/conformance.yml"))
            .arg("--output-dir")
            .arg(results.path()),
        LIMIT,
    );
    proxy.child.kill()?;
    proxy.child.wait()?;
    ran
}

/// A proxy that adds the token to the runner's requests.
struct Proxy {
    child: Child,
    port: u16,
}

impl Proxy {
    fn start(server: &Server, node: &Path, token: &str) -> Result<Self> {
        let mut child = command(node.join(".bin/node"))
            .arg(root().join("tests/compat/token_proxy.mjs"))
            .arg(server.address().port().to_string())
            .env("STEAD_TOKEN", token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the proxy")?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        Ok(Self { child, port: line.trim().parse().context("the proxy did not tell its port")? })
    }
}
