//! Calls a tool by its name in a catalog, for a run or for an agent outside any run.
//!
//! The tool must be visible, bound and allowed, and its arguments must be valid. Otherwise the call
//! is refused, and the refusal is recorded.

use std::time::Instant;

use serde_json::Value;
use stead_core::content::Refusal;
use stead_core::content::binding::{Adapter, Operation};
use stead_core::content::conclude::ContentOutcome;
use stead_core::content::decide::{BoundCall, ContentCommand, ContentEffect, Verdict, adapter_of, visible};
use stead_core::content::event::BoundCallRefused;
use stead_core::content::gate::{active_catalog, confine, name_in_catalog, not_in_catalog};
use stead_core::content::run::{CallFrom, CallRequest};
use stead_core::event::Answer;
use stead_core::tool::ToolName;
use stead_core::{Actor, CallId, Command, Effect, Event, Outcome, Rejection, Resource, Session, SessionId};

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::content::mcp::Notices;
use crate::content::{arguments, bound, request};
use crate::effects::guard::guard_op;
use crate::effects::perform::millis;
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::open_session::{Intent, OpenSession};
use crate::ops::boxed;
use crate::ops::tools::call_tool::{ToolReply, abandon, count, not_active, perform};

/// Arguments up to this size are recorded with a refusal.
const KEPT_BYTES: usize = 64 * 1024;
/// Maximum number of repeated checks if the catalog changes meanwhile.
const RETRIES: usize = 4;

/// The connection to the caller while a call runs.
#[derive(Debug, Clone, Default)]
pub struct CallLink {
    /// Ends the call when it fires.
    pub cancelled: CancellationToken,
    /// Receives the progress and log messages of an MCP server that carries out the call.
    pub notices: Notices,
}

impl CallLink {
    pub fn until(cancelled: CancellationToken) -> Self {
        Self { cancelled, notices: Notices::default() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct BoundReply {
    pub call: CallId,
    pub seq: u64,
    /// The workspace tool that ran, if any.
    pub tool: Option<ToolName>,
    /// The shape in which the caller knows the tool.
    pub adapter: Adapter,
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
    link: CallLink,
) -> Result<BoundReply, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.in_lane(id, async move { decide_and_perform(&work, &actor, id, from, request, link).await }).await
}

async fn decide_and_perform(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    from: CallFrom,
    request: CallRequest,
    link: CallLink,
) -> Result<BoundReply, OpError> {
    let session = OpenSession::open(engine, id).await?;
    perform_in(engine, actor, session, from, request, link).await
}

/// Calls a built-in tool by its own name, as the active catalog has it. Returns `None` if no
/// catalog is active, or if the caller is not bound to it.
pub(in crate::ops) async fn by_catalog(
    engine: &Engine,
    actor: &Actor,
    session: &OpenSession,
    tool: ToolName,
    arguments: &Value,
    cancelled: &CancellationToken,
) -> Option<Result<ToolReply, OpError>> {
    let state = session.state().await.session?;
    if !matches!(actor, Actor::Session { .. }) || active_catalog(&state).is_none() {
        return None;
    }
    let from = CallFrom::Session { catalog: None };
    let found = name_in_catalog(&state, tool);
    let name = found.clone().unwrap_or_else(|| tool.to_string());
    let request = CallRequest { name, arguments: arguments.clone(), call_id: None };
    if found.is_none() {
        let rejection = not_in_catalog(&state, tool).into();
        return Some(Err(refuse(session, actor, &from, request, rejection).await));
    }
    let called = perform_in(engine, actor, session.clone(), from, request, CallLink::until(cancelled.clone())).await;
    Some(called.map(|BoundReply { call, seq, answer, .. }| ToolReply { call, seq, tool, answer, refused: Vec::new() }))
}

async fn perform_in(
    engine: &Engine,
    actor: &Actor,
    session: OpenSession,
    from: CallFrom,
    request: CallRequest,
    link: CallLink,
) -> Result<BoundReply, OpError> {
    let call = CallId::from_bits(clock::id_bits());
    let mut tries = 0;
    let (intent, adapter) = loop {
        match attempt(engine, actor, &session, &from, call, &request).await {
            Err(OpError::Rejected(Rejection::Content(Refusal::Superseded))) if tries < RETRIES => tries += 1,
            Err(OpError::Rejected(rejection)) => return Err(refuse(&session, actor, &from, request, rejection).await),
            decided => break decided?,
        }
    };
    let performed = match intent.effect {
        Some(Effect::CallTool { .. }) => guard_op(perform(engine, &session, intent, actor, link.cancelled)).await.map(
            |ToolReply { call, seq, tool, answer, .. }| BoundReply { call, seq, tool: Some(tool), adapter, answer },
        ),
        _ => guard_op(perform_bound(engine, &session, intent, link)).await,
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
) -> Result<(Intent, Adapter), OpError> {
    let missing = || OpError::NotFound { what: Resource::Session, id: session.id().to_string() };
    let state = session.state().await.session.ok_or_else(missing)?;
    let from = confine(&state, from, actor);
    let verdict = judge(engine, &state, &from, &request.name, &request.arguments).await?;
    let CallRequest { name, arguments, call_id } = request.clone();
    let adapter = adapter_of(&state, &from, &name);
    let call = BoundCall { call, from, name, arguments, call_id, verdict };
    let intent = session.commit(Command::Content(ContentCommand::Call(Box::new(call))), actor).await?;
    Ok((intent, adapter))
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
    link: CallLink,
) -> Result<BoundReply, OpError> {
    let Some(Effect::Content(ContentEffect::Call { call, operation, arguments, root_hash })) = intent.effect else {
        return Err(OpError::Contended);
    };
    pause("bound.perform").await;
    let agent_type = session.state().await.session.map(|session| session.spec.agent_type.clone());
    let agent_type = agent_type.ok_or(OpError::Contended)?;
    let started = Instant::now();
    let order = bound::BoundOrder {
        session: session.id(),
        agent_type: &agent_type,
        operation: &operation,
        arguments: &arguments,
        root_hash: root_hash.as_deref(),
        notices: &link.notices,
    };
    let answer = tokio::select! {
        answer = bound::call(engine, order) => answer,
        () = link.cancelled.cancelled() => bound::failed("cancelled", "The call was cancelled."),
    };
    let outcome = ContentOutcome::CallFinished { call, duration_ms: millis(started), answer: answer.clone() };
    match session.record(Outcome::Content(outcome)).await? {
        Some(seq) => {
            count(kind(&operation), &answer);
            Ok(BoundReply { call, seq, tool: None, adapter: Adapter::Plain, answer })
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
