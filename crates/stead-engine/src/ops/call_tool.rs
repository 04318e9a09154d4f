//! Call a tool of a session.

use std::time::{Duration, Instant};

use serde_json::Value;
use stead_core::event::{Answer, ToolFailure};
use stead_core::tool::ToolName;
use stead_core::{Actor, CallId, Command, Effect, Outcome, Rejection, SessionId, Status};
use stead_providers::{Done, ToolDone, ToolOrder, Workspace};
use tokio_util::sync::CancellationToken;

use super::operate_files::refuse;
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::guard::{guard, guard_op};
use crate::open_session::{Intent, OpenSession};
use crate::reconcile::millis;
use crate::{clock, files, git_tool, points};

const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// What a tool answered, and where in the journal that stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReply {
    pub call: CallId,
    pub seq: u64,
    pub tool: ToolName,
    pub answer: Answer,
}

/// Runs to its record even if the caller goes away.
pub async fn call_tool(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    tool: ToolName,
    arguments: Value,
) -> Result<ToolReply, OpError> {
    call_tool_until(engine, actor, id, tool, arguments, CancellationToken::new()).await
}

/// As [`call_tool`]; when `cancelled` fires, what the call started is ended, and what it came to is recorded.
pub async fn call_tool_until(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    tool: ToolName,
    arguments: Value,
    cancelled: CancellationToken,
) -> Result<ToolReply, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.in_lane(id, async move { decide_and_perform(&work, &actor, id, tool, arguments, cancelled).await }).await
}

async fn decide_and_perform(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    tool: ToolName,
    arguments: Value,
    cancelled: CancellationToken,
) -> Result<ToolReply, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let call = CallId::from_bits(clock::id_bits());
    match session.commit(Command::CallTool { call, tool, arguments }, actor).await {
        Err(OpError::Rejected(rejection)) => Err(refuse(&session, tool, rejection, actor).await),
        Ok(intent) => match guard_op(perform(engine, &session, intent, cancelled)).await {
            Err(error) => Err(abandon(engine, session, call, error)),
            reply => reply,
        },
        Err(error) => Err(error),
    }
}

/// A call whose outcome could not be recorded has none; that, too, must come into the journal, as soon as it can be written.
pub(super) fn abandon(engine: &Engine, session: OpenSession, call: CallId, error: OpError) -> OpError {
    let reason = format!("its outcome could not be recorded: {error}");
    engine.spawn(async move { session.record_surely(Outcome::Abandoned { call, reason }).await });
    error
}

pub(super) async fn perform(
    engine: &Engine,
    session: &OpenSession,
    intent: Intent,
    cancelled: CancellationToken,
) -> Result<ToolReply, OpError> {
    let Some(Effect::CallTool { call, tool, arguments, limits }) = intent.effect else {
        return Err(OpError::Contended);
    };
    pause("tool.perform").await;
    let started = Instant::now();
    let evaluator = engine.settings().evaluator.for_owner(&session.id().to_string());
    let order = ToolOrder { call, tool, arguments, limits, now: intent.at, evaluator };
    let workspace = session.workspace();
    let called = guard(async {
        pause("tool.call").await;
        match &workspace {
            Some(workspace) if tool == ToolName::Git => {
                git_tool::call(engine, session, &**workspace, order, cancelled).await
            }
            Some(workspace) => call_or_cancel(&**workspace, order, cancelled).await,
            None => vanished(),
        }
    });
    let ToolDone { answer, mut done } = called.await.unwrap_or_else(|_| crashed());
    let duration_ms = millis(started);
    if let Some(workspace) = workspace.filter(|_| tool.changes_files()) {
        points::keep(session, &*workspace, &mut done).await;
    }
    pause("tool.record").await;
    let (files, staged) = files::to_effect(engine, done).await?;
    let outcome = Outcome::CallFinished { call, duration_ms, answer: answer.clone(), files };
    // A change that was not recorded is not published: `staged` is dropped.
    match session.record(outcome).await? {
        Some(seq) => {
            staged.publish();
            Ok(ToolReply { call, seq, tool, answer })
        }
        None => Err(ended(session).await),
    }
}

/// The call's own end, or the one that cancelling gives it. A call may be cancelled before its command runs, so it is said until it is heard.
async fn call_or_cancel(workspace: &dyn Workspace, order: ToolOrder, cancelled: CancellationToken) -> ToolDone {
    let call = order.call;
    let mut called = workspace.call(order);
    tokio::select! {
        done = &mut called => return done,
        () = cancelled.cancelled() => {}
    }
    loop {
        workspace.cancel(call).await;
        if let Ok(done) = tokio::time::timeout(CANCEL_AGAIN, &mut called).await {
            return done;
        }
    }
}

/// The session ended while the call was under way, and the call with it.
pub(super) async fn ended(session: &OpenSession) -> OpError {
    let status = session.state().await.session.map_or(Status::Closed, |session| session.status);
    Rejection::NotActive { status }.into()
}

/// The answer of a tool that panicked. Its changes to a memory workspace are discarded. In a box it
/// may have changed files.
fn crashed() -> ToolDone {
    let message = "The tool failed because of a bug in the server. Its log says where.".to_owned();
    let error = ToolFailure { code: "internal".to_owned(), message: message.clone(), hint: None };
    ToolDone { answer: Answer { result: None, error: Some(error), message }, done: Done::nothing() }
}

/// The session was closed between the decision and the call.
fn vanished() -> ToolDone {
    let message = "The session was closed before the tool could run.".to_owned();
    let error = ToolFailure { code: "workspace_gone".to_owned(), message: message.clone(), hint: None };
    ToolDone { answer: Answer { result: None, error: Some(error), message }, done: Done::nothing() }
}
