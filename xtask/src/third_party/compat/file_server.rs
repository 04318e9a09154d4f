//! Compares the profile `mcp-filesystem` with the reference MCP server for files.
//!
//! Both get the same calls, the reference server on an empty directory and Stead in an empty
//! workspace. `tests/compat/file_server.yml` lists the calls whose answers differ, with the reason.
//! A listed call that does not differ fails the step.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::{LIMIT, begin, close, copy_next_to, made};
use crate::process::{command, root, run_within};
use crate::server::Server;

pub(super) fn check(server: &Server, node: &Path) -> Result<()> {
    let workspace = json!({"enabled": true, "provider": "native", "workspace_policy": "empty"});
    made(server.client()?.post("/api/v1/agent-types", &json!({"id": "file-server", "workspace": workspace}))?)?;
    let (session, token) = begin(server, "file-server")?;
    let folder = tempfile::tempdir()?;
    run_within(
        command(node.join(".bin/node"))
            .arg(copy_next_to(node, "file_server.mjs")?)
            .arg(format!("http://{}/mcp", server.address()))
            .arg(node.join("@modelcontextprotocol/server-filesystem/dist/index.js"))
            .arg(folder.path().canonicalize()?)
            .arg(root().join("tests/compat/file_server.yml"))
            .env("STEAD_TOKEN", token),
        LIMIT,
    )?;
    close(server, &session)
}
