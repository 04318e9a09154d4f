//! Tool calls over MCP.
//!
//! A tool that ran and failed, and a call that was refused, both give a result that a model can
//! read (`isError`), with a stable code and a message. Only an unknown tool name is a protocol
//! error.

use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, MetaObject, ProgressNotificationParam,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use stead_core::content::run::{CallFrom, CallRequest};
use stead_core::event::Answer;
use stead_core::{CallId, Rejection};
use stead_engine::OpError;
use stead_engine::ops::{self, BoundReply, ToolReply};

use super::chosen::Chosen;
use super::set_digest;
use super::text;
use crate::problem::Problem;
use crate::tools;

/// Interval of progress notifications, if the client asked for them.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

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
    Ok(match with_progress(called, context).await {
        Ok(reply) => result(reply),
        Err(error) => refused(&Problem::from(error)),
    })
}

/// Calls a tool of the catalog, with the same checks as a run's tool call. Returns `None` if the
/// session has no catalog.
async fn call_presented(
    chosen: &Chosen,
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<CallToolResult> {
    let engine = &chosen.app.engine;
    match ops::offered_tools(engine, chosen.session, chosen.catalog.clone()).await {
        Ok(None) | Err(OpError::Rejected(Rejection::NotActive { .. })) => return None,
        Ok(Some(_)) => {}
        Err(error) => return Some(refused(&Problem::from(error))),
    }
    let from = CallFrom::Session { catalog: chosen.catalog.clone() };
    let arguments = Value::Object(request.arguments.clone().unwrap_or_default());
    let wish = CallRequest { name: request.name.to_string(), arguments, call_id: None };
    let called = ops::call_bound_tool(engine, &chosen.actor, chosen.session, from, wish, context.ct.clone());
    Some(match with_progress(called, context).await {
        Ok(BoundReply { call, seq, tool: Some(tool), answer }) => result(ToolReply { call, seq, tool, answer }),
        Ok(BoundReply { call, seq, tool: None, answer }) => elsewhere(call, seq, answer),
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
    result.meta = Some(told(call, seq));
    result
}

fn told(call: CallId, seq: u64) -> MetaObject {
    let mut meta = Map::new();
    meta.insert("stead/call_id".to_owned(), call.to_string().into());
    meta.insert("stead/seq".to_owned(), seq.into());
    MetaObject(meta)
}

/// Waits for the call and sends a progress notification each second, if the client gave a progress
/// token.
async fn with_progress<T>(called: impl Future<Output = T>, context: &RequestContext<RoleServer>) -> T {
    let Some(token) = context.meta.get_progress_token() else { return called.await };
    tokio::pin!(called);
    let begun = Instant::now();
    loop {
        tokio::select! {
            done = &mut called => return done,
            () = tokio::time::sleep(PROGRESS_EVERY) => {
                let seconds = begun.elapsed().as_secs_f64();
                let mut progress = ProgressNotificationParam::new(token.clone(), seconds);
                progress.message = Some(format!("running for {seconds:.0} s"));
                // A failed notification is no reason to stop the call.
                let _ = context.peer.notify_progress(progress).await;
            }
        }
    }
}

fn result(reply: ToolReply) -> CallToolResult {
    let ToolReply { call, seq, tool, answer } = reply;
    let mut result = CallToolResult::default();
    result.is_error = Some(answer.error.is_some());
    result.content = vec![ContentBlock::text(text::of(tool, &answer))];
    result.structured_content = match answer.error {
        Some(error) => Some(json!({"code": error.code, "message": error.message, "hint": error.hint})),
        None => answer.result,
    };
    result.meta = Some(told(call, seq));
    result
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
