//! Calls a tool of a session.

use std::time::{Duration, Instant};

use serde_json::Value;
use stead_core::event::{Answer, ToolFailure};
use stead_core::network::{RefusedContact, Window};
use stead_core::tool::ToolName;
use stead_core::{Actor, CallId, Command, Effect, Outcome, Rejection, SessionId, Status, Timestamp};
use stead_providers::{Done, ToolDone, ToolOrder, Workspace};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::effects::checkpoints;
use crate::effects::file_changes;
use crate::effects::git_tool;
use crate::effects::guard::{guard, guard_op};
use crate::effects::network;
use crate::effects::perform::millis;
use crate::effects::secret_env;
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::open_session::{Intent, OpenSession};
use crate::ops::boxed;
use crate::ops::files::operate_files::{keep_unnoticed_changes, refuse};
use crate::ops::tools::background_bash;
use crate::ops::tools::call_bound_tool::by_catalog;

const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// The answer of a tool, with its position in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolReply {
    pub call: CallId,
    pub seq: u64,
    pub tool: ToolName,
    pub answer: Answer,
    /// Connections that were refused during the call.
    pub refused: Vec<RefusedContact>,
}

/// Calls a tool. The call runs until it is recorded, even if the caller goes away.
#[boxed]
pub async fn call_tool(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    tool: ToolName,
    arguments: Value,
) -> Result<ToolReply, OpError> {
    call_tool_until(engine, actor, id, tool, arguments, CancellationToken::new()).await
}

/// Like [`call_tool`]. When `cancelled` fires, the processes of the call are ended and the outcome
/// is recorded.
#[boxed]
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
    if let Some(called) = by_catalog(engine, actor, &session, tool, &arguments, &cancelled).await {
        return called;
    }
    let call = CallId::from_bits(clock::id_bits());
    let command = Command::CallTool { call, tool, arguments };
    if !tool.changes_files() {
        return read(engine, &session, tool, command, actor, cancelled).await;
    }
    keep_unnoticed_changes(engine, &session).await;
    match session.commit(command, actor).await {
        Err(OpError::Rejected(rejection)) => Err(refuse(&session, tool, rejection, actor).await),
        Ok(intent) => match guard_op(perform(engine, &session, intent, actor, cancelled)).await {
            Err(error) => Err(abandon(engine, session, call, error)),
            reply => reply,
        },
        Err(error) => Err(error),
    }
}

/// Performs a call that changes nothing. If it is interrupted, there is nothing to recover. Its
/// events therefore need not be durable before it runs, and one commit records both after it.
async fn read(
    engine: &Engine,
    session: &OpenSession,
    tool: ToolName,
    command: Command,
    actor: &Actor,
    cancelled: CancellationToken,
) -> Result<ToolReply, OpError> {
    let called = guard_op(async {
        let mut asked = session.ask_unrecorded(&command, actor).await?;
        let Called { call, tool, answer, done, duration_ms } =
            call_workspace(engine, session, asked.effect.take(), asked.at, actor, cancelled).await?;
        pause("tool.record").await;
        let (files, staged) = file_changes::to_effect(engine, done).await?;
        let outcome = Outcome::CallFinished { call, duration_ms, answer: answer.clone(), files };
        let seq = session.commit_finished(command, outcome, actor).await?;
        staged.publish();
        Ok(answered(ToolReply { call, seq, tool, answer, refused: Vec::new() }))
    });
    match called.await {
        Err(OpError::Rejected(rejection)) => Err(refuse(session, tool, rejection, actor).await),
        reply => reply,
    }
}

/// Records that the outcome of a call could not be recorded, as soon as the store accepts writes.
pub(in crate::ops) fn abandon(engine: &Engine, session: OpenSession, call: CallId, error: OpError) -> OpError {
    let reason = format!("its outcome could not be recorded: {error}");
    engine.spawn(async move { session.record_surely(Outcome::Abandoned { call, reason }).await });
    error
}

pub(in crate::ops) async fn perform(
    engine: &Engine,
    session: &OpenSession,
    intent: Intent,
    actor: &Actor,
    cancelled: CancellationToken,
) -> Result<ToolReply, OpError> {
    let network = session.network();
    let mark = network.as_ref().map(|network| network.mark());
    let Called { call, tool, answer, mut done, duration_ms } =
        call_workspace(engine, session, intent.effect, intent.at, actor, cancelled).await?;
    let refused = network.zip(mark).map(|(network, mark)| network.refused_since(mark)).unwrap_or_default();
    network::tally(session, Window::Open).await;
    if let Some(workspace) = session.workspace().filter(|_| tool.changes_files()) {
        checkpoints::keep(session, &*workspace, &mut done).await;
    }
    pause("tool.record").await;
    let (files, staged) = file_changes::to_effect(engine, done).await?;
    let outcome = Outcome::CallFinished { call, duration_ms, answer: answer.clone(), files };
    // If the change is not recorded, `staged` is dropped and the change is not published.
    match session.record(outcome).await? {
        Some(seq) => {
            staged.publish();
            Ok(answered(ToolReply { call, seq, tool, answer, refused }))
        }
        None => Err(not_active(session).await),
    }
}

/// A call that a workspace has answered.
struct Called {
    call: CallId,
    tool: ToolName,
    answer: Answer,
    done: Done,
    duration_ms: u64,
}

async fn call_workspace(
    engine: &Engine,
    session: &OpenSession,
    effect: Option<Effect>,
    now: Timestamp,
    actor: &Actor,
    cancelled: CancellationToken,
) -> Result<Called, OpError> {
    let Some(Effect::CallTool { call, tool, arguments, limits, files }) = effect else {
        return Err(OpError::Contended);
    };
    pause("tool.perform").await;
    let started = Instant::now();
    let evaluator = engine.settings().evaluator.for_owner(&session.id().to_string());
    let arguments = match secret_env::in_arguments(engine, session, arguments).await {
        Ok(arguments) => arguments,
        Err(error) => {
            let ToolDone { answer, done } = without_secret(&error);
            return Ok(Called { call, tool, answer, done, duration_ms: millis(started) });
        }
    };
    let order = ToolOrder { call, session: session.id(), tool, arguments, limits, files, now, evaluator };
    let called = guard(async {
        pause("tool.call").await;
        match session.workspace() {
            Some(workspace) if tool == ToolName::Git => {
                git_tool::call(engine, session, &*workspace, order, cancelled).await
            }
            Some(workspace) if workspace.execs().is_some() && background_bash::is_meant(tool, &order.arguments) => {
                Box::pin(background_bash::call(engine, session, actor, order)).await
            }
            Some(workspace) => call_or_cancel(&*workspace, order, cancelled).await,
            None => vanished(),
        }
    });
    let ToolDone { answer, done } = called.await.unwrap_or_else(|_| crashed());
    Ok(Called { call, tool, answer, done, duration_ms: millis(started) })
}

/// Counts a recorded call.
fn answered(reply: ToolReply) -> ToolReply {
    count(reply.tool.as_str(), &reply.answer);
    reply
}

/// Counts a recorded answer. `tool` is one of a fixed set of names.
pub(in crate::ops) fn count(tool: &'static str, answer: &Answer) {
    let ok = if answer.error.is_none() { "true" } else { "false" };
    metrics::counter!("stead_tool_calls_total", "tool" => tool, "ok" => ok).increment(1);
}

/// Waits for the call, or cancels it. The cancel is repeated until it has an effect, because it may
/// arrive before the command runs.
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

/// The error for a call whose session ended meanwhile.
pub(in crate::ops) async fn not_active(session: &OpenSession) -> OpError {
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

/// The answer of a call whose environment refers to a secret that it may not use.
fn without_secret(error: &OpError) -> ToolDone {
    let (code, message) = match error {
        OpError::Rejected(rejection) => (rejection.code(), rejection.to_string()),
        OpError::SecretKey(_) | OpError::NoSecrets => {
            ("secrets_unavailable", "No secret of this server can be used now.".to_owned())
        }
        _ => ("unavailable", "The secret could not be read; try again.".to_owned()),
    };
    let error = ToolFailure { code: code.to_owned(), message: message.clone(), hint: None };
    ToolDone { answer: Answer { result: None, error: Some(error), message }, done: Done::nothing() }
}

/// The answer if the session was closed between the decision and the call.
fn vanished() -> ToolDone {
    let message = "The session was closed before the tool could run.".to_owned();
    let error = ToolFailure { code: "workspace_gone".to_owned(), message: message.clone(), hint: None };
    ToolDone { answer: Answer { result: None, error: Some(error), message }, done: Done::nothing() }
}
