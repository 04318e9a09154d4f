//! Calls a tool by its name in a catalog, for a run or for an agent outside any run.
//!
//! The tool must be visible, bound and allowed, and its arguments must be valid. Otherwise the call
//! is refused, and the refusal is recorded.

use std::time::Instant;

use serde_json::Value;
use stead_core::content::Refusal;
use stead_core::content::binding::Operation;
use stead_core::content::conclude::ContentOutcome;
use stead_core::content::decide::{BoundCall, ContentCommand, ContentEffect, Verdict, visible};
use stead_core::content::event::BoundCallRefused;
use stead_core::content::run::{CallFrom, CallRequest};
use stead_core::event::Answer;
use stead_core::tool::ToolName;
use stead_core::{Actor, CallId, Command, Effect, Event, Outcome, Rejection, Resource, Session, SessionId};

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::content::{arguments, bound, request};
use crate::effects::guard::guard_op;
use crate::effects::perform::millis;
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::open_session::{Intent, OpenSession};
use crate::ops::boxed;
use crate::ops::tools::call_tool::{abandon, count, not_active, perform};

/// Arguments up to this size are recorded with a refusal.
const KEPT_BYTES: usize = 64 * 1024;
/// Maximum number of repeated checks if the catalog changes meanwhile.
const RETRIES: usize = 4;

#[derive(Debug, Clone, PartialEq)]
pub struct BoundReply {
    pub call: CallId,
    pub seq: u64,
    /// The workspace tool that ran, if any.
    pub tool: Option<ToolName>,
    pub answer: Answer,
}

/// Calls a tool. The call runs until it is recorded, even if the caller goes away.
#[boxed]
pub async fn call_bound_tool(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    from: CallFrom,
    request: CallRequest,
    cancelled: CancellationToken,
) -> Result<BoundReply, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.in_lane(id, async move { decide_and_perform(&work, &actor, id, from, request, cancelled).await }).await
}

async fn decide_and_perform(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    from: CallFrom,
    request: CallRequest,
    cancelled: CancellationToken,
) -> Result<BoundReply, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let call = CallId::from_bits(clock::id_bits());
    let mut tries = 0;
    let intent = loop {
        match attempt(engine, actor, &session, &from, call, &request).await {
            Err(OpError::Rejected(Rejection::Content(Refusal::Superseded))) if tries < RETRIES => tries += 1,
            Err(OpError::Rejected(rejection)) => return Err(refuse(&session, actor, &from, request, rejection).await),
            decided => break decided?,
        }
    };
    let performed = match intent.effect {
        Some(Effect::CallTool { .. }) => guard_op(perform(engine, &session, intent, cancelled))
            .await
            .map(|reply| BoundReply { call: reply.call, seq: reply.seq, tool: Some(reply.tool), answer: reply.answer }),
        _ => guard_op(perform_bound(engine, &session, intent, cancelled)).await,
    };
    performed.map_err(|error| match error {
        error @ OpError::Rejected(_) => error,
        error => abandon(engine, session, call, error),
    })
}

async fn attempt(
    engine: &Engine,
    actor: &Actor,
    session: &OpenSession,
    from: &CallFrom,
    call: CallId,
    request: &CallRequest,
) -> Result<Intent, OpError> {
    let missing = || OpError::NotFound { what: Resource::Session, id: session.id().to_string() };
    let state = session.state().await.session.ok_or_else(missing)?;
    let verdict = judge(engine, &state, from, &request.name, &request.arguments).await?;
    let CallRequest { name, arguments, call_id } = request.clone();
    let from = from.clone();
    let call = BoundCall { call, from, name, arguments, call_id, verdict };
    session.commit(Command::Content(ContentCommand::Call(Box::new(call))), actor).await
}

/// Validates the arguments against the descriptor's schema.
pub(crate) async fn judge(
    engine: &Engine,
    session: &Session,
    from: &CallFrom,
    name: &str,
    given: &Value,
) -> Result<Verdict, OpError> {
    let visible = visible(session, from, name)?;
    let tools = request::descriptors(engine, &visible.catalog, &visible.catalog_ref).await?;
    let missing = || OpError::MissingBlob { digest: visible.catalog_ref.clone() };
    let descriptor = tools.into_iter().find(|tool| tool.name == visible.name).ok_or_else(missing)?;
    Ok(Verdict { descriptor: Some(descriptor.hash()), faults: arguments::check(&descriptor, given) })
}

/// Records a refusal that concerns the call itself, and returns it as an error.
async fn refuse(
    session: &OpenSession,
    actor: &Actor,
    from: &CallFrom,
    request: CallRequest,
    rejection: Rejection,
) -> OpError {
    if !matches!(&rejection, Rejection::Content(refusal) if refusal.is_of_call()) {
        return rejection.into();
    }
    let CallRequest { name, arguments, call_id } = request;
    let refused = BoundCallRefused {
        run: from.run(),
        catalog: from.catalog(),
        name,
        arguments: Some(arguments).filter(|arguments| arguments.to_string().len() <= KEPT_BYTES),
        call_id,
        code: rejection.code().to_owned(),
        message: rejection.to_string(),
        actor: actor.clone(),
    };
    match session.record_refusal(Event::BoundCallRefused(Box::new(refused))).await {
        Ok(()) => rejection.into(),
        Err(error) => error,
    }
}

async fn perform_bound(
    engine: &Engine,
    session: &OpenSession,
    intent: Intent,
    cancelled: CancellationToken,
) -> Result<BoundReply, OpError> {
    let Some(Effect::Content(ContentEffect::Call { call, operation, arguments, root_hash })) = intent.effect else {
        return Err(OpError::Contended);
    };
    pause("bound.perform").await;
    let agent_type = session.state().await.session.map(|session| session.spec.agent_type.clone());
    let agent_type = agent_type.ok_or(OpError::Contended)?;
    let started = Instant::now();
    let answer = tokio::select! {
        answer = bound::call(engine, session.id(), &agent_type, &operation, &arguments, root_hash.as_deref()) => answer,
        () = cancelled.cancelled() => bound::failed("cancelled", "The call was cancelled."),
    };
    let outcome = ContentOutcome::CallFinished { call, duration_ms: millis(started), answer: answer.clone() };
    match session.record(Outcome::Content(outcome)).await? {
        Some(seq) => {
            count(kind(&operation), &answer);
            Ok(BoundReply { call, seq, tool: None, answer })
        }
        None => Err(not_active(session).await),
    }
}

/// The name of an operation in the metrics. Users choose the names of catalog tools, so these are
/// not counted separately.
fn kind(operation: &Operation) -> &'static str {
    match operation {
        Operation::Tool { tool, .. } => tool.as_str(),
        Operation::Content { .. } => "content",
        Operation::Mcp { .. } => "mcp",
    }
}
