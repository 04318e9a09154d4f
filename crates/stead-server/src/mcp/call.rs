//! Tool calls over MCP.
//!
//! A tool that ran and failed, and a call that was refused, both give a result that a model can
//! read (`isError`), with a stable code and a message. The only protocol error is an unknown tool
//! name in a session without a catalog.

use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, MetaObject, ResourceContents};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use stead_api::tool::presented::{Block, Outcome, Presented, present};
use stead_core::content::binding::Operation;
use stead_core::content::run::{CallFrom, CallRequest};
use stead_core::event::Answer;
use stead_core::network::RefusedContact;
use stead_core::{CallId, Rejection};
use stead_engine::OpError;
use stead_engine::ops::{self, BoundReply, CallLink, Notices, ToolReply};

use super::chosen::Chosen;
use super::notifications::CallNotifications;
use super::set_digest;
use super::text::{self, Pages};
use crate::problem::Problem;
use crate::tools;

/// Interval of progress notifications, if the client asked for them.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Interval for calls that another server carries out, which may have progress of its own.
const PROGRESS_ELSEWHERE_EVERY: Duration = Duration::from_secs(10);

pub(super) async fn call(
    chosen: &Chosen,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    if let Some(called) = call_presented(chosen, &request, context).await {
        return Ok(called);
    }
    if request.name == set_digest::NAME {
        return Ok(set_digest::call(chosen, Value::Object(request.arguments.unwrap_or_default())).await);
    }
    let tool = tools::named(&request.name)
        .ok_or_else(|| ErrorData::invalid_params(format!("Unknown tool: {}", shown(&request.name)), None))?;
    let arguments = Value::Object(request.arguments.unwrap_or_default());
    let cancelled = context.ct.clone();
    let called = ops::call_tool_until(&chosen.app.engine, &chosen.actor, chosen.session, tool, arguments, cancelled);
    let (_, received) = Notices::channel();
    let notifications = CallNotifications { context, level: chosen.log_level.clone(), pace: PROGRESS_EVERY };
    Ok(match notifications.during(called, received).await {
        Ok(reply) => result(reply, Pages::ByOffset),
        Err(error) => refused(&Problem::from(error)),
    })
}

/// Calls a tool of the catalog, with the same checks as a run's tool call. Returns `None` if the
/// session has no catalog or is not active.
async fn call_presented(
    chosen: &Chosen,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    let engine = &chosen.app.engine;
    let offered = match ops::offered_tools(engine, &chosen.actor, chosen.session, chosen.catalog.clone()).await {
        Ok(None) | Err(OpError::Rejected(Rejection::NotActive { .. })) => return None,
        Ok(Some(offered)) => offered,
        Err(error) => return Some(refused(&Problem::from(error))),
    };
    let tool = offered.iter().find(|tool| tool.descriptor.name == request.name);
    let pages = match tool.is_some_and(|tool| tool.descriptor.parameters["properties"].get("offset").is_some()) {
        true => Pages::ByOffset,
        false => Pages::First,
    };
    let from = CallFrom::Session { catalog: chosen.catalog.clone() };
    let given = Value::Object(request.arguments.clone().unwrap_or_default());
    let wish = CallRequest { name: request.name.to_string(), arguments: given.clone(), call_id: None };
    let (notices, received) = Notices::channel();
    let link = CallLink { cancelled: context.ct.clone(), notices };
    let called = ops::call_bound_tool(engine, &chosen.actor, chosen.session, from, wish, link);
    // A call that another server carries out has that server's progress.
    let elsewhere_bound = tool.is_some_and(|tool| matches!(tool.operation, Operation::Mcp { .. }));
    let pace = if elsewhere_bound { PROGRESS_ELSEWHERE_EVERY } else { PROGRESS_EVERY };
    Some(match (CallNotifications { context, level: chosen.log_level.clone(), pace }).during(called, received).await {
        Ok(BoundReply { call, seq, tool: Some(tool), adapter, answer }) => match present(adapter, &given, &answer) {
            Some(presented) => shaped(call, seq, presented),
            None => result(ToolReply { call, seq, tool, answer, refused: Vec::new() }, pages),
        },
        Ok(BoundReply { call, seq, tool: None, answer, .. }) => elsewhere(call, seq, answer),
        Err(error) => refused(&Problem::from(error)),
    })
}

/// Converts the result of a content operation or of another MCP server. Content blocks of an MCP
/// server pass through unchanged.
fn elsewhere(call: CallId, seq: u64, answer: Answer) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.is_error = Some(answer.error.is_some());
    let blocks = answer.result.as_ref().and_then(|result| result.get("content")).filter(|blocks| blocks.is_array());
    let passed = blocks.and_then(|blocks| serde_json::from_value::<Vec<ContentBlock>>(blocks.clone()).ok());
    result.structured_content = match (&passed, &answer.error, answer.result) {
        (_, Some(error), _) => Some(json!({"code": error.code, "message": error.message})),
        (Some(_), None, Some(result)) => result.get("structured_content").cloned(),
        (None, None, result) => result,
        (Some(_), None, None) => None,
    };
    result.content = passed.unwrap_or_else(|| vec![ContentBlock::text(answer.message)]);
    result.meta = Some(call_meta(call, seq));
    result
}

fn call_meta(call: CallId, seq: u64) -> MetaObject {
    let mut meta = Map::new();
    meta.insert("stead/call_id".to_owned(), call.to_string().into());
    meta.insert("stead/seq".to_owned(), seq.into());
    MetaObject(meta)
}

/// Converts a result that is in the shape of the caller's profile.
fn shaped(call: CallId, seq: u64, presented: Presented) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.is_error = Some(presented.outcome == Outcome::Failure);
    result.content = vec![match presented.block {
        Block::Text(text) => ContentBlock::text(text),
        Block::Image { data, media_type } => ContentBlock::image(data, media_type),
        Block::Audio { data, media_type } => ContentBlock::audio(data, media_type),
        Block::File { uri, data, media_type } => {
            ContentBlock::resource(ResourceContents::blob(data, uri).with_mime_type(media_type))
        }
    }];
    result.structured_content = presented.structured;
    result.meta = Some(call_meta(call, seq));
    result
}

fn result(reply: ToolReply, pages: Pages) -> CallToolResult {
    let ToolReply { call, seq, tool, answer, refused } = reply;
    let mut result = CallToolResult::default();
    result.is_error = Some(answer.error.is_some());
    result.content = vec![ContentBlock::text(text::of(tool, &answer, pages))];
    if !refused.is_empty() {
        result.content.push(ContentBlock::text(refusals(&refused)));
    }
    result.structured_content = match answer.error {
        Some(error) => Some(json!({"code": error.code, "message": error.message, "hint": error.hint})),
        None => answer.result,
    };
    result.meta = Some(call_meta(call, seq));
    result
}

/// Tells the model that the network refused connections, or it would look for other causes.
fn refusals(refused: &[RefusedContact]) -> String {
    let one = |contact: &RefusedContact| format!("{}:{} ({})", contact.host, contact.port, contact.why);
    let list: Vec<String> = refused.iter().map(one).collect();
    format!("The session's network policy refused: {}.", list.join(", "))
}

/// Converts a problem into a tool result with the same code and message.
pub(super) fn refused(problem: &Problem) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.is_error = Some(true);
    result.content = vec![ContentBlock::text(problem.sentence())];
    result.structured_content = Some(json!({"code": problem.code().as_str(), "message": problem.detail()}));
    result
}

/// Converts a problem into a protocol error, for methods that cannot return an error as a result.
pub(super) fn refusal(problem: &Problem) -> ErrorData {
    let data = json!({"code": problem.code().as_str()});
    ErrorData::invalid_request(problem.sentence(), Some(data))
}

fn shown(name: &str) -> String {
    name.chars().take(80).collect()
}
