//! Calls a tool of an MCP server, over its standard streams or over HTTP.
//!
//! A connection belongs to one session, stays open for its next call ([`Connections`]) and closes
//! with the session. Only the operator decides how a server is reached. Its answers are untrusted:
//! they are limited in size and time, and they are only used as data.

mod connections;
mod http;
mod notices;
mod stdio;

use std::time::Duration;

use serde_json::{Value, json};
use stead_core::content::access::McpServer;
use stead_core::event::{Answer, ToolFailure};
use stead_core::{Name, SessionId};

use super::bound::failed;
use crate::engine::Engine;

/// Maximum size of a message from a server.
const MAX_BYTES: u64 = 1 << 20;
const PROTOCOL: &str = "2025-06-18";

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
enum McpError {
    #[error("cannot start it")]
    Start(#[source] std::io::Error),
    #[error("the connection broke")]
    Broken(#[source] std::io::Error),
    #[error("it ended before it answered")]
    Ended,
    #[error("it answered with more than {MAX_BYTES} bytes")]
    TooLarge,
    #[error("its answer is not a JSON-RPC message")]
    Unreadable,
    #[error("it refused: {0}")]
    Refused(String),
    #[error("it no longer knows this MCP session")]
    SessionLost,
    #[error("it answered with HTTP status {0}")]
    Status(u16),
    #[error("no HTTP connection: {0}")]
    Http(String),
}

pub(crate) use connections::Connections;
pub use notices::{Notice, Notices};

/// The key of a connection: its session and its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectionKey {
    pub(crate) session: SessionId,
    pub(crate) server: Name,
    /// The declared address. If the operator changes it, the key differs.
    pub(crate) declared: McpServer,
}

/// An initialised connection. Dropping it closes it.
enum Connection {
    Http(Box<http::Connection>),
    Stdio(Box<stdio::Connection>),
}

impl Connection {
    async fn open(server: &McpServer) -> Result<Self, McpError> {
        match &server.url {
            Some(url) => http::Connection::open(url, server).await.map(|connection| Self::Http(Box::new(connection))),
            None => stdio::Connection::open(server).await.map(|connection| Self::Stdio(Box::new(connection))),
        }
    }

    /// Returns true if the connection can still be used, as far as this side can tell.
    fn is_open(&mut self) -> bool {
        match self {
            Self::Http(_) => true,
            Self::Stdio(connection) => connection.is_open(),
        }
    }

    /// Calls a tool. Returns the connection if it can be used again. Cancelling the call closes it.
    async fn call(self, order: ToolCall<'_>) -> (Result<Value, McpError>, Option<Self>) {
        let (result, back) = match self {
            Self::Http(connection) => {
                let (result, connection) = connection.call(order).await;
                (result, connection.map(Self::Http))
            }
            Self::Stdio(mut connection) => (connection.call(order).await, Some(Self::Stdio(connection))),
        };
        let usable = matches!(result, Ok(_) | Err(McpError::Refused(_)));
        (result, back.filter(|_| usable))
    }
}

/// Makes one call over the kept connection. Opens a new one if there is none, or if the old one was
/// lost before the call reached the server.
async fn converse(engine: &Engine, key: &ConnectionKey, order: ToolCall<'_>) -> Result<Value, McpError> {
    let connections = engine.connections();
    if let Some(connection) = connections.take(key) {
        let (result, back) = connection.call(order).await;
        if !matches!(result, Err(McpError::SessionLost)) {
            connections.keep(engine, key, back);
            return result;
        }
    }
    let (result, back) = Connection::open(&key.declared).await?.call(order).await;
    connections.keep(engine, key, back);
    result
}

/// A call of a tool of an MCP server.
#[derive(Clone, Copy)]
pub(crate) struct ToolCall<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Value,
    pub(crate) notices: &'a Notices,
}

pub(crate) async fn call(engine: &Engine, key: &ConnectionKey, order: ToolCall<'_>) -> Answer {
    let patience = Duration::from_secs(key.declared.timeout_seconds);
    let called = converse(engine, key, order);
    match tokio::time::timeout(patience, called).await {
        Ok(Ok(result)) => answer(result),
        Ok(Err(error)) => failed("mcp_unavailable", format!("The MCP server could not be used: {error}.")),
        Err(_) => failed("mcp_timeout", format!("The MCP server did not answer in {} seconds.", patience.as_secs())),
    }
}

fn initialize() -> Value {
    let params = json!({
        "protocolVersion": PROTOCOL, "capabilities": {},
        "clientInfo": {"name": "stead", "version": env!("CARGO_PKG_VERSION")},
    });
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// The id of the request is also its progress token.
fn tools_call(id: u64, order: ToolCall<'_>) -> Value {
    let params = json!({"name": order.tool, "arguments": order.arguments, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Returns the result in a message that answers `id`. `None` if the message answers something else.
fn result_of(message: &Value, id: u64) -> Option<Result<Value, McpError>> {
    if message.get("id").and_then(Value::as_u64) != Some(id) || message.get("method").is_some() {
        return None;
    }
    match (message.get("result"), message.pointer("/error/message").and_then(Value::as_str)) {
        (Some(result), _) => Some(Ok(result.clone())),
        (None, Some(refusal)) => Some(Err(McpError::Refused(refusal.chars().take(1000).collect()))),
        (None, None) => Some(Err(McpError::Unreadable)),
    }
}

/// Builds the answer for the agent: the texts as the message, the whole content as the result.
fn answer(result: Value) -> Answer {
    let parts = result["content"].as_array().cloned().unwrap_or_default();
    let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    let text = texts.join("\n");
    let message = if text.is_empty() { "Done.".to_owned() } else { text.chars().take(2000).collect() };
    if result["isError"] == true {
        let error = ToolFailure { code: "mcp_tool_failed".to_owned(), message: message.clone(), hint: None };
        return Answer { result: None, error: Some(error), message };
    }
    let mut kept = json!({"content": parts});
    if let Some(structured) = result.get("structuredContent") {
        kept["structured_content"] = structured.clone();
    }
    Answer { result: Some(kept), error: None, message }
}
