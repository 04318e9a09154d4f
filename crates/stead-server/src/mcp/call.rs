//! A tool call over the protocol.
//!
//! A tool that ran and failed, and a call that may not run, are both results a model can read (`isError`), with the stable code beside the sentence. Only a name that is
//! no tool at all is an error of the protocol.

use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, MetaObject, ProgressNotificationParam,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use stead_engine::ops::{self, ToolReply};

use super::chosen::Chosen;
use super::text;
use crate::problem::Problem;
use crate::tools;

/// Between two signs of life of a call whose caller asked for them.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn call(
    chosen: &Chosen,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
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

/// Waits for the call and says each second that it goes on, if the caller gave a token to say it with.
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
                // A client that does not listen any more is no reason to stop the call.
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
    let mut meta = Map::new();
    meta.insert("stead/call_id".to_owned(), call.to_string().into());
    meta.insert("stead/seq".to_owned(), seq.into());
    result.meta = Some(MetaObject(meta));
    result
}

/// The same refusal HTTP gives, as a result.
fn refused(problem: &Problem) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.is_error = Some(true);
    result.content = vec![ContentBlock::text(problem.sentence())];
    result.structured_content = Some(json!({"code": problem.code().as_str(), "message": problem.detail()}));
    result
}

/// A refusal where the protocol has no room for a result.
pub(super) fn refusal(problem: &Problem) -> ErrorData {
    let data = json!({"code": problem.code().as_str()});
    ErrorData::invalid_request(problem.sentence(), Some(data))
}

fn shown(name: &str) -> String {
    name.chars().take(80).collect()
}
