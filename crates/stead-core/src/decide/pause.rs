//! Rules for pausing and resuming a session.

use super::{exec, in_workspace, interrupted, next};
use crate::command::{Command, Effect, Step};
use crate::event::{Event, Failure};
use crate::identity::Actor;
use crate::pause::PauseMode;
use crate::rejection::Rejection;
use crate::session::{Session, Status, Workspace, WorkspaceStatus};

const PAUSED: &str = "the session was paused";

/// Idempotent for the same mode.
pub(super) fn pause(session: &Session, mode: PauseMode, actor: &Actor) -> Result<Step, Rejection> {
    let same = |workspace: &Workspace| workspace.pause == Some(mode) && workspace.status != WorkspaceStatus::Resuming;
    if session.status == Status::Paused && session.workspace.as_ref().is_some_and(same) {
        return Ok(Step { events: Vec::new(), effect: None });
    }
    in_workspace(session)?;
    let idle = session.open_calls.is_empty() && session.open_operations.is_empty();
    // A frozen box does not answer, so a client would wait for its call until the resume.
    if mode == PauseMode::Freeze && !(idle && session.content.open_calls.is_empty()) {
        return Err(Rejection::CallInProgress);
    }
    Ok(Step { events: vec![Event::PauseRequested { mode, actor: actor.clone() }], effect: None })
}

/// Idempotent.
pub(super) fn resume(session: &Session, actor: &Actor) -> Result<Step, Rejection> {
    let events = match (session.status, session.workspace.as_ref().map(|workspace| workspace.status)) {
        (Status::Active, _) | (Status::Paused, Some(WorkspaceStatus::Resuming)) => Vec::new(),
        (Status::Paused, Some(WorkspaceStatus::Paused)) => vec![Event::ResumeRequested { actor: actor.clone() }],
        (Status::Paused, _) => return Err(Rejection::NotDue { what: "it is still being paused" }),
        (status, _) => return Err(Rejection::NotActive { status }),
    };
    Ok(Step { events, effect: None })
}

/// The effect of a pause. It is idempotent, so the reconciler repeats it after a crash.
pub(super) fn pause_box(session: &Session) -> Result<Step, Rejection> {
    let not_due = Rejection::NotDue { what: "no pause is due" };
    let due = next(session) == Some(Command::PauseBox);
    let workspace = session.workspace.as_ref().filter(|_| due);
    let (provider, mode) = workspace.and_then(|workspace| workspace.provider.zip(workspace.pause)).ok_or(not_due)?;
    let workspace = session.workspace_spec().map(|spec| spec.id);
    let effect = workspace.map(|workspace| Effect::PauseBox { provider, workspace, mode });
    Ok(Step { events: Vec::new(), effect })
}

/// The effect of a resume, idempotent like that of a pause.
pub(super) fn resume_box(session: &Session) -> Result<Step, Rejection> {
    let not_due = Rejection::NotDue { what: "no resume is due" };
    let due = next(session) == Some(Command::ResumeBox);
    let workspace = session.workspace.as_ref().filter(|_| due);
    let (provider, mode) = workspace.and_then(|workspace| workspace.provider.zip(workspace.pause)).ok_or(not_due)?;
    Ok(Step { events: Vec::new(), effect: Some(Effect::ResumeBox { provider, mode }) })
}

pub(super) fn paused(session: &Session, workspace: &Workspace) -> Vec<Event> {
    let (WorkspaceStatus::Pausing, Some(mode)) = (workspace.status, workspace.pause) else { return Vec::new() };
    let mut events = Vec::new();
    if mode == PauseMode::Stop {
        events.extend(interrupted(session, PAUSED));
        events.extend(exec::interrupted(session, PAUSED));
    }
    events.push(Event::SessionPaused { mode });
    events
}

pub(super) fn pause_failed(workspace: &Workspace, failure: Failure) -> Vec<Event> {
    let due = workspace.status == WorkspaceStatus::Pausing;
    due.then_some(Event::PauseFailed { failure }).into_iter().collect()
}

/// Records the end of a resume, unless the session was closed meanwhile.
pub(super) fn resumed(workspace: &Workspace, failure: Option<Failure>) -> Vec<Event> {
    if workspace.status != WorkspaceStatus::Resuming {
        return Vec::new();
    }
    vec![match failure {
        None => Event::SessionResumed,
        Some(failure) => Event::ResumeFailed { failure },
    }]
}
