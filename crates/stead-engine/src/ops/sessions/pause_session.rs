//! Pauses and resumes a session.

use stead_core::pause::PauseMode;
use stead_core::session::WorkspaceStatus;
use stead_core::{Actor, Command, Event, Rejection, Resource, SessionId, State, Status};
use stead_store::Admission;

use crate::effects::pause::SHARED;
use crate::engine::Engine;
use crate::error::OpError;
use crate::limits::quotas;
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::wait_settled;
use crate::reconcile;

/// Returns when the box is stopped or frozen, or after a limited wait while that continues.
/// Idempotent.
#[boxed]
pub async fn pause_session(engine: &Engine, actor: &Actor, id: SessionId, mode: PauseMode) -> Result<State, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let state = session.state().await;
    if let Some(paused) = state.session.as_deref().filter(|session| session.status == Status::Active) {
        check(engine, paused, mode)?;
    }
    begin(engine, actor, id, Command::Pause { mode }, None).await
}

/// Returns when the box runs, or after a limited wait while that continues. Idempotent. Refused if
/// no place is free.
#[boxed]
pub async fn resume_session(engine: &Engine, actor: &Actor, id: SessionId) -> Result<State, OpError> {
    let state = OpenSession::open(engine, id).await?.state().await;
    let session = state.session.ok_or_else(|| OpError::NotFound { what: Resource::Session, id: id.to_string() })?;
    // The place counts against the quota of the session's creator.
    let owner = session.owner.clone().unwrap_or(Actor::System);
    let admission = quotas::admission(engine, &owner, &session.spec, 1).await?;
    begin(engine, actor, id, Command::Resume, Some(admission)).await
}

/// Refuses what the provider cannot do, before anything is recorded.
fn check(engine: &Engine, session: &stead_core::Session, mode: PauseMode) -> Result<(), OpError> {
    let workspace = session.workspace_spec().map(|spec| spec.id);
    if workspace.is_some_and(|workspace| engine.workspace_users().users(workspace).len() > 1) {
        return Err(Rejection::CannotPause { reason: SHARED.to_owned() }.into());
    }
    let provider = session.workspace.as_ref().and_then(|workspace| workspace.provider);
    let found = provider.and_then(|name| Some((name, engine.providers().get(name).ok()?)));
    if let (PauseMode::Freeze, Some((name, provider))) = (mode, found)
        && let Err(reason) = provider.freezes()
    {
        let reason = format!("provider '{name}' cannot freeze this session: {reason}; pause it with mode 'stop'");
        return Err(Rejection::CannotPause { reason }.into());
    }
    Ok(())
}

async fn begin(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    command: Command,
    admission: Option<Admission>,
) -> Result<State, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    let starting = async move {
        let session = OpenSession::open(&work, id).await?;
        let intent = match admission {
            Some(admission) => session.commit_admitted(command, &actor, admission).await?,
            None => session.commit(command, &actor).await?,
        };
        reconcile::begin(&work, id);
        Ok(intent.first_seq)
    };
    let first_seq = engine.to_its_end(starting).await?;
    let state = wait_settled(engine, id, engine.settings().close_wait).await?;
    match failed_since(engine, id, first_seq).await? {
        Some(failure) => Err(OpError::PauseFailed { reason: failure }),
        None => Ok(state),
    }
}

/// Returns the reason if the pause or the resume from this event on has failed.
async fn failed_since(engine: &Engine, id: SessionId, first_seq: u64) -> Result<Option<String>, OpError> {
    const PAGE: u32 = 100;
    let page = engine.store().events(id, first_seq.saturating_sub(1), PAGE).await?;
    let failed = page.iter().find(|event| matches!(event.kind.as_str(), "PauseFailed" | "ResumeFailed"));
    let event = failed.and_then(|stored| serde_json::from_str(&stored.payload).ok());
    Ok(match event {
        Some(Event::PauseFailed { failure } | Event::ResumeFailed { failure }) => Some(failure.message),
        _ => None,
    })
}

/// Returns true while the box is being stopped, frozen or started.
pub(crate) fn in_progress(session: &stead_core::Session) -> bool {
    let status = session.workspace.as_ref().map(|workspace| workspace.status);
    matches!(status, Some(WorkspaceStatus::Pausing | WorkspaceStatus::Resuming))
}
