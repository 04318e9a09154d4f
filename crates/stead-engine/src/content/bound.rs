//! Carries out calls that are bound to an operation other than a workspace tool.

use serde_json::{Value, json};
use stead_core::ContentHash;
use stead_core::SessionId;
use stead_core::content::ContentPath;
use stead_core::content::binding::{ContentOperation, Operation};
use stead_core::event::{Answer, ToolFailure};

use super::mcp::{self, Notices};
use super::tree;
use crate::engine::Engine;
use crate::error::OpError;
use crate::ops;

/// Maximum number of bytes of a file that one call returns.
const MAX_READ_BYTES: usize = 256 * 1024;

pub(crate) fn failed(code: &str, message: impl Into<String>) -> Answer {
    let message = message.into();
    let error = ToolFailure { code: code.to_owned(), message: message.clone(), hint: None };
    Answer { result: None, error: Some(error), message }
}

/// A call to carry out.
pub(crate) struct BoundOrder<'a> {
    pub(crate) session: SessionId,
    pub(crate) agent_type: &'a stead_core::Name,
    pub(crate) operation: &'a Operation,
    pub(crate) arguments: &'a Value,
    pub(crate) root_hash: Option<&'a str>,
    pub(crate) notices: &'a Notices,
}

/// Carries out the call. Never fails: an error is part of the answer.
pub(crate) async fn call(engine: &Engine, order: BoundOrder<'_>) -> Answer {
    let BoundOrder { session, agent_type, operation, arguments, root_hash, notices } = order;
    match operation {
        Operation::Tool { .. } => failed("internal", "This call is a workspace tool's."),
        Operation::Content { operation } => match content(engine, *operation, arguments, root_hash).await {
            Ok(answer) => answer,
            Err(error) => failed("failed", error.to_string()),
        },
        Operation::Mcp { server, tool } => {
            // The address of the server comes from the current agent type. No journal records it.
            let found = match ops::session_tenant(engine, session).await {
                Ok(tenant) => ops::agent_type(engine, &tenant, agent_type).await,
                Err(error) => Err(error),
            };
            let declared = match found {
                Ok(found) => found.content.and_then(|content| content.mcp_servers.get(server).cloned()),
                Err(error) => return failed("mcp_unavailable", error.to_string()),
            };
            match declared {
                Some(declared) => {
                    let key = mcp::ConnectionKey { session, server: server.clone(), declared };
                    mcp::call(engine, &key, mcp::ToolCall { tool, arguments, notices }).await
                }
                None => failed("mcp_unavailable", format!("The agent type has no MCP server '{server}' any more.")),
            }
        }
    }
}

/// Reads the content tree of the run, and no other.
async fn content(
    engine: &Engine,
    operation: ContentOperation,
    arguments: &Value,
    root_hash: Option<&str>,
) -> Result<Answer, OpError> {
    let Some(root) = root_hash.and_then(|root| root.parse::<ContentHash>().ok()) else {
        return Ok(failed("no_content", "The session has no content."));
    };
    let files = tree::files(engine, root).await?;
    let path = arguments.get("path").and_then(Value::as_str).unwrap_or_default();
    match operation {
        ContentOperation::List => {
            let prefix = path.trim_matches('/');
            let below = |file: &&tree::TreeFile| {
                let rest = file.path.as_str().strip_prefix(prefix);
                prefix.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let entries: Vec<Value> =
                files.values().filter(below).map(|file| json!({"path": file.path, "size": file.size})).collect();
            let message = format!("Found {} files.", entries.len());
            Ok(Answer { result: Some(json!({"entries": entries})), error: None, message })
        }
        ContentOperation::Read => {
            let found = path.trim_start_matches('/').parse::<ContentPath>().ok().and_then(|path| files.get(&path));
            let Some(file) = found else {
                return Ok(failed("not_found", format!("The content has no file '{path}'.")));
            };
            let missing = || OpError::MissingBlob { digest: file.hash.to_string() };
            let bytes = engine.store().blobs().get(&file.hash).await?.ok_or_else(missing)?;
            let Ok(text) = std::str::from_utf8(&bytes) else {
                return Ok(failed("binary", format!("'{path}' is not UTF-8 text.")));
            };
            let end = text.floor_char_boundary(MAX_READ_BYTES);
            let result = json!({"path": file.path, "content": &text[..end], "hash": file.hash, "bytes": file.size,
                "truncated": end < text.len()});
            let message = format!("Read {} of {} bytes.", end, text.len());
            Ok(Answer { result: Some(result), error: None, message })
        }
        ContentOperation::Sync => Ok(failed("failed", "Only an event syncs.")),
    }
}
