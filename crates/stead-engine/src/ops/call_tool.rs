//! Call a tool of a session.

use std::time::Instant;

use serde_json::Value;
use stead_core::event::{Answer, ToolFailure};
use stead_core::tool::ToolName;
use stead_core::{Actor, CallId, Command, Effect, Event, Outcome, SessionId};
use stead_providers::{Done, ToolDone, ToolOrder};

use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::open_session::{Intent, OpenSession};
use crate::reconcile::millis;
use crate::{clock, files};

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
    let session = OpenSession::open(engine, id).await?;
    let call = CallId::from_bits(clock::id_bits());
    let intent = match session.commit(Command::CallTool { call, tool, arguments }, actor).await {
        Err(OpError::Rejected(rejection)) => {
            let (code, message) = (rejection.code().to_owned(), rejection.to_string());
            session.record_refusal(Event::ToolCallRefused { tool, code, message, actor: actor.clone() }).await?;
            return Err(rejection.into());
        }
        committed => committed?,
    };
    let engine = engine.clone();
    let work = engine.clone();
    let done = engine.spawn(async move { perform(&work, &session, intent).await });
    done.await.map_err(|_| OpError::ShuttingDown)?
}

async fn perform(engine: &Engine, session: &OpenSession, intent: Intent) -> Result<ToolReply, OpError> {
    let Some(Effect::CallTool { call, tool, arguments, limits }) = intent.effect else {
        return Err(OpError::Contended);
    };
    pause("tool.perform").await;
    let started = Instant::now();
    let order = ToolOrder { call, tool, arguments, limits, now: intent.at };
    let ToolDone { answer, done } = match session.workspace() {
        Some(workspace) => workspace.call(order).await,
        None => vanished(),
    };
    let duration_ms = millis(started);
    let (files, staged) = files::to_effect(engine, done).await?;
    let outcome = Outcome::CallFinished { call, duration_ms, answer: answer.clone(), files };
    // A change that could not be recorded is not published: `staged` is dropped with the error.
    let seq = session.record(outcome).await?;
    staged.publish();
    Ok(ToolReply { call, seq, tool, answer })
}

/// The session was closed between the decision and the call.
fn vanished() -> ToolDone {
    let message = "The session was closed before the tool could run.".to_owned();
    let error = ToolFailure { code: "workspace_gone".to_owned(), message: message.clone(), hint: None };
    ToolDone { answer: Answer { result: None, error: Some(error), message }, done: Done::nothing() }
}
