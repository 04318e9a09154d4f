//! The fold of updates, changes of the network policy, pauses and resumes.

use std::sync::Arc;

use crate::event::{Event, Recorded};
use crate::network::usage;
use crate::parse::words;
use crate::session::{Session, Status, WorkspaceStatus};

words!(
    /// The way a session is paused.
    PauseMode, "pause mode", {
        /// The box ends with all its processes, and the files stay.
        Stop = "stop",
        /// The processes stay in memory and do not run.
        Freeze = "freeze",
    }
);

/// Folds an event of a pause, an update, or a change or use of the network. Returns false for any
/// other event.
pub(super) fn fold(session: &mut Session, recorded: &Recorded) -> bool {
    if usage::fold(&mut session.network_use, &recorded.event) {
        return true;
    }
    match &recorded.event {
        Event::SessionUpdated { expires_at, metadata, .. } => {
            if let Some(at) = expires_at {
                session.expires_at = *at;
                session.end_set_at = Some(recorded.at);
            }
            if let Some(metadata) = metadata {
                Arc::make_mut(&mut session.spec).metadata.clone_from(metadata);
            }
        }
        Event::NetworkNarrowed { deny, .. } => session.network_changes.denied.extend(deny.iter().cloned()),
        Event::NetworkGranted { grants, .. } => session.network_changes.add(grants, recorded.at),
        Event::PauseRequested { mode, .. } => {
            session.status = Status::Paused;
            session.was_active(recorded.at);
            set_workspace(session, WorkspaceStatus::Pausing, Some(*mode));
        }
        Event::SessionPaused { mode } => set_workspace(session, WorkspaceStatus::Paused, Some(*mode)),
        Event::ResumeRequested { .. } => set_workspace_status(session, WorkspaceStatus::Resuming),
        Event::ResumeFailed { .. } => set_workspace_status(session, WorkspaceStatus::Paused),
        Event::PauseFailed { .. } | Event::SessionResumed => {
            session.status = Status::Active;
            session.was_active(recorded.at);
            set_workspace(session, WorkspaceStatus::Ready, None);
        }
        _ => return false,
    }
    true
}

fn set_workspace(session: &mut Session, status: WorkspaceStatus, pause: Option<PauseMode>) {
    if let Some(workspace) = &mut session.workspace {
        (workspace.status, workspace.pause) = (status, pause);
    }
}

fn set_workspace_status(session: &mut Session, status: WorkspaceStatus) {
    if let Some(workspace) = &mut session.workspace {
        workspace.status = status;
    }
}
