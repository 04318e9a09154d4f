//! Calls a tool of an MCP server.

use serde_json::Value;
use stead_core::content::access::McpServer;
use stead_core::event::Answer;

use super::bound::failed;

pub(crate) async fn call(_server: &McpServer, _tool: &str, _arguments: &Value) -> Answer {
    failed("mcp_unavailable", "not yet")
}
