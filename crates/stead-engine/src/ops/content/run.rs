//! Runs and steps of a session.

use std::sync::Arc;

use stead_core::content::conclude::ReadContent;
use stead_core::content::decide::{ContentCommand, ContentEffect, StartRun};
use stead_core::content::event::MessagesRef;
use stead_core::content::fault::Stage;
use stead_core::content::materialize::{Materials, Sizes};
use stead_core::content::message::Message;
use stead_core::content::run::{RunEnd, RunRequest, RunSummary, StepRequest};
use stead_core::content::{
    Refusal, Snapshot, SnapshotRef, SyncFault, SyncTarget, materialize_llm_generate_params_with_workspace,
    materialize_workspace_step_inputs,
};
use stead_core::identity::Tenant;
use stead_core::{Actor, Command, Effect, Event, Rejection, Resource, RunId, Session, SessionId, State, Step, fold};

use crate::claim::Claims;
use crate::clock;
use crate::content::{load, request};
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::{OpenSession, each_event};
use crate::ops::Idempotency;
use crate::ops::boxed;

/// The current state of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    pub id: RunId,
    pub summary: RunSummary,
    /// The snapshot that it uses while it is active.
    pub snapshot: Option<SnapshotRef>,
}

fn view(session: &Session, id: RunId) -> Result<RunView, OpError> {
    let missing = || OpError::NotFound { what: Resource::Run, id: id.to_string() };
    let summary = session.content.runs.get(&id).ok_or_else(missing)?.clone();
    let active = session.content.run.as_ref().is_some_and(|run| run.id == id);
    let snapshot = session.content.in_use().filter(|_| active).map(Snapshot::reference);
    Ok(RunView { id, summary, snapshot })
}

async fn born(session: &OpenSession) -> Result<Arc<Session>, OpError> {
    let missing = || OpError::NotFound { what: Resource::Session, id: session.id().to_string() };
    session.state().await.session.ok_or_else(missing)
}

#[boxed]
pub async fn runs(engine: &Engine, id: SessionId) -> Result<Vec<RunView>, OpError> {
    let session = born(&OpenSession::open(engine, id).await?).await?;
    session.content.runs.keys().map(|run| view(&session, *run)).collect()
}

#[boxed]
pub async fn run(engine: &Engine, id: SessionId, run: RunId) -> Result<RunView, OpError> {
    view(&*born(&OpenSession::open(engine, id).await?).await?, run)
}

#[boxed]
pub async fn start_run(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    request: RunRequest,
    idempotency: Option<Idempotency>,
) -> Result<RunView, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.to_its_end(async move { start(&work, &actor, id, request, idempotency).await }).await
}

async fn start(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    request: RunRequest,
    idempotency: Option<Idempotency>,
) -> Result<RunView, OpError> {
    let claims = Claims::new("runs", id, actor, idempotency);
    if let Some(before) = claims.made_before(engine, "run").await? {
        let gone = || OpError::NotFound { what: Resource::Run, id: before.clone() };
        return run(engine, id, before.parse().map_err(|_| gone())?).await;
    }
    let session = OpenSession::open(engine, id).await?;
    let pinned = match request.workspace_version {
        Some(version) => Some(pin(engine, &*born(&session).await?, version).await?),
        None => None,
    };
    let run_id = RunId::from_bits(clock::id_bits());
    let start = StartRun {
        run: run_id,
        provider: request.provider,
        model: request.model,
        prompt_pack: request.prompt_pack,
        tool_catalog: request.tool_catalog,
        options: request.options,
        input: keep(engine, &request.input).await?,
        pinned,
    };
    let command = Command::Content(ContentCommand::StartRun(Box::new(start)));
    session.commit_claimed(command, actor, |_| claims.on("run", run_id)).await?;
    view(&*born(&session).await?, run_id)
}

/// Loads the version that a run asks for, of the content its session works with.
async fn pin(engine: &Engine, session: &Session, version: u64) -> Result<Box<Snapshot>, OpError> {
    let active = session.content.active.as_deref();
    let name = active.map(|snapshot| snapshot.workspace.clone());
    let name = name.or_else(|| session.spec.content.as_ref().map(|binding| binding.workspace.clone()));
    let Some(name) = name else { return Err(Rejection::from(Refusal::NoContent).into()) };
    let target = SyncTarget { workspace: Some(name), version: Some(version), root_hash: None };
    let found =
        load::resolve(engine, &Tenant::of(session.spec.project.as_ref()), &target, &session.spec.authority.names)
            .await?;
    let ReadContent::Snapshot { mut snapshot, .. } = load::snapshot(engine, &found).await? else {
        return Err(SyncFault::new(Stage::Read, "nothing was read").into());
    };
    // Keep the session's choices if the pinned version has them.
    if let Some(pack) = active.and_then(|active| active.prompt_pack.clone()) {
        snapshot.select(Some(&pack), None).unwrap_or(());
    }
    if let Some(catalog) = active.and_then(|active| active.tool_catalog.clone()) {
        snapshot.select(None, Some(&catalog)).unwrap_or(());
    }
    Ok(snapshot)
}

/// Stores messages in the blob store, for references in the journal.
async fn keep(engine: &Engine, messages: &[Message]) -> Result<Option<MessagesRef>, OpError> {
    if messages.is_empty() {
        return Ok(None);
    }
    let canonical = stead_core::canonical::bytes(&messages);
    let bytes = canonical.len() as u64;
    let digest = engine.store().blobs().put(canonical).await?.to_string();
    Ok(Some(MessagesRef { digest, messages: messages.len() as u64, bytes }))
}

/// A step, with the inputs of its model request.
#[derive(Debug, Clone)]
pub struct StepReply {
    pub run: RunId,
    pub step: u64,
    pub snapshot: Option<SnapshotRef>,
    pub inputs_hash: String,
    pub sizes: Sizes,
    pub materials: Materials,
}

#[boxed]
pub async fn start_step(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    run: RunId,
    request: StepRequest,
    idempotency: Option<Idempotency>,
) -> Result<StepReply, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.to_its_end(async move { begin_step(&work, &actor, id, run, request, idempotency).await }).await
}

async fn begin_step(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    run: RunId,
    request: StepRequest,
    idempotency: Option<Idempotency>,
) -> Result<StepReply, OpError> {
    let claims = Claims::new(&format!("steps/{run}"), id, actor, idempotency);
    if let Some(before) = claims.made_before(engine, "step").await? {
        return step(engine, id, run, claimed_step(run, &before)?).await;
    }
    let session = OpenSession::open(engine, id).await?;
    let messages = keep(engine, &request.messages).await?;
    let command = ContentCommand::StartStep { run, messages, overrides: Box::new(request.overrides) };
    let claim = |decided: &Step| claims.on("step", started_step(decided)?);
    let intent = session.commit_claimed(Command::Content(command), actor, claim).await?;
    let Some(Effect::Content(ContentEffect::Materialize { run, step, snapshot, params })) = intent.effect else {
        return Err(OpError::Contended);
    };
    reply(run, step, snapshot, request::materials(engine, *params).await?)
}

/// The step that an idempotency key names.
fn claimed_step(run: RunId, claimed: &str) -> Result<u64, OpError> {
    claimed.parse().map_err(|_| OpError::NotFound { what: Resource::Step, id: format!("{run}/{claimed}") })
}

/// The number of the step that a decision starts.
fn started_step(decided: &Step) -> Option<u64> {
    match &decided.effect {
        Some(Effect::Content(ContentEffect::Materialize { step, .. })) => Some(*step),
        _ => None,
    }
}

fn reply(run: RunId, step: u64, snapshot: Option<SnapshotRef>, materials: Materials) -> Result<StepReply, OpError> {
    let (inputs_hash, sizes) = (materials.params.hash(), materials.sizes());
    Ok(StepReply { run, step, snapshot, inputs_hash, sizes, materials })
}

/// Rebuilds a past step from the journal.
#[boxed]
pub async fn step(engine: &Engine, id: SessionId, run: RunId, step: u64) -> Result<StepReply, OpError> {
    let mut state = State::default();
    let mut found = None;
    each_event(engine, id, |recorded| {
        let wanted =
            matches!(&recorded.event, Event::StepStarted(started) if started.run == run && started.step == step);
        if found.is_none() {
            fold(&mut state, &recorded);
            found = wanted.then(|| state.clone());
        }
        Ok(())
    })
    .await?;
    let missing = || OpError::NotFound { what: Resource::Step, id: format!("{run}/{step}") };
    let session = found.and_then(|state| state.session).ok_or_else(missing)?;
    let (content, active) = (&session.content, session.content.run.as_deref().ok_or_else(missing)?);
    let inputs = materialize_workspace_step_inputs(content.in_use(), active, &active.overrides, None);
    let params =
        inputs.and_then(|inputs| materialize_llm_generate_params_with_workspace(inputs, active, &active.overrides));
    let params = params.map_err(Rejection::from)?;
    reply(run, step, content.in_use().map(Snapshot::reference), request::materials(engine, params).await?)
}

#[boxed]
pub async fn end_run(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    run: RunId,
    end: RunEnd,
    code: Option<String>,
    detail: Option<String>,
) -> Result<RunView, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine
        .to_its_end(async move {
            let session = OpenSession::open(&work, id).await?;
            session.commit(Command::Content(ContentCommand::EndRun { run, end, code, detail }), &actor).await?;
            view(&*born(&session).await?, run)
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_names_no_step_is_an_error_and_not_step_zero() {
        let run = RunId::from_bits(1);
        assert!(matches!(claimed_step(run, "7"), Ok(7)));
        let missing = claimed_step(run, "seven").err().map(|error| error.to_string());
        assert_eq!(missing, Some(format!("there is no step '{run}/seven'")));
    }
}
