//! The content part of a session's state, folded from the content events of the journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::binding::Operation;
use super::event::{ApplyMode, RunEnded, RunStarted, StepStarted, SyncRequested};
use super::fault::Stage;
use super::run::{Run, RunStatus, RunSummary};
use super::snapshot::Snapshot;
use crate::event::{Event, Recorded};
use crate::{CallId, RunId, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContentState {
    /// The snapshot that steps use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Arc<Snapshot>>,
    /// The staged snapshot: read and valid, but not adopted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Arc<Snapshot>>,
    /// The requested time to adopt the staged snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub armed: Option<ApplyMode>,
    /// A sync that has no outcome yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<OpenSync>,
    /// The failure of the last sync. A later successful sync clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_failure: Option<SyncFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<Run>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runs: BTreeMap<RunId, RunSummary>,
    /// Bound calls that have no outcome yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub open_calls: BTreeMap<CallId, OpenBoundCall>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSync {
    /// The event that requested it.
    pub seq: u64,
    pub requested: SyncRequested,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncFailure {
    pub seq: u64,
    pub workspace: String,
    pub stage: Stage,
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenBoundCall {
    pub name: String,
    pub operation: Operation,
}

impl ContentState {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The snapshot that the active run uses.
    pub fn in_use(&self) -> Option<&Snapshot> {
        let pinned = self.run.as_ref().and_then(|run| run.pinned.as_deref());
        pinned.or(self.active.as_deref())
    }

    fn start_run(&mut self, started: &RunStarted, at: Timestamp) {
        let summary = RunSummary {
            status: RunStatus::Running,
            provider: started.provider.clone(),
            model: started.model.clone(),
            steps: 0,
            started_at: at,
            ended_at: None,
            code: None,
            detail: None,
        };
        self.runs.insert(started.run, summary);
        self.run = Some(Box::new(Run::of(started)));
    }

    fn start_step(&mut self, started: &StepStarted) {
        if let Some(run) = self.run.as_mut().filter(|run| run.id == started.run) {
            run.step = started.step;
            run.history.extend(started.messages.clone());
            run.overrides = started.overrides.clone();
        }
        if let Some(summary) = self.runs.get_mut(&started.run) {
            summary.steps = started.step;
        }
    }

    fn end_run(&mut self, ended: &RunEnded, status: RunStatus, at: Timestamp) {
        self.run = None;
        if let Some(summary) = self.runs.get_mut(&ended.run) {
            summary.status = status;
            summary.ended_at = Some(at);
            summary.code.clone_from(&ended.code);
            summary.detail.clone_from(&ended.detail);
        }
    }
}

/// Folds one event if it is about content, and returns true in that case. Other events copy
/// nothing.
pub(crate) fn fold(content: &mut Arc<ContentState>, recorded: &Recorded) -> bool {
    match &recorded.event {
        Event::WorkspaceSyncRequested(requested) => {
            let open = OpenSync { seq: recorded.seq, requested: (**requested).clone() };
            Arc::make_mut(content).sync = Some(open);
        }
        Event::WorkspaceSyncFailed(failed) => {
            let content = Arc::make_mut(content);
            // A refused request never started a sync. The one in progress continues.
            if failed.stage != Stage::Authorize {
                content.sync = None;
            }
            let (workspace, stage, detail) = (failed.workspace.clone(), failed.stage, failed.detail.clone());
            content.sync_failure = Some(SyncFailure { seq: recorded.seq, workspace, stage, detail });
        }
        Event::RunStarted(started) => Arc::make_mut(content).start_run(started, recorded.at),
        Event::RunCompleted(ended) => Arc::make_mut(content).end_run(ended, RunStatus::Completed, recorded.at),
        Event::RunFailed(ended) => Arc::make_mut(content).end_run(ended, RunStatus::Failed, recorded.at),
        Event::RunCancelled(ended) => Arc::make_mut(content).end_run(ended, RunStatus::Cancelled, recorded.at),
        Event::BoundCallRefused(_) => {}
        // The events of a built-in tool also end its bound call.
        Event::ToolCallFinished { call, .. } | Event::ToolCallInterrupted { call, .. } => {
            if content.open_calls.contains_key(call) {
                Arc::make_mut(content).open_calls.remove(call);
            }
            return false;
        }
        event => return fold_undated(content, event),
    }
    true
}

/// The part of [`fold`] for events whose number and time do not enter the state. A decision folds
/// its own events with it to see the resulting content.
pub(super) fn fold_undated(content: &mut Arc<ContentState>, event: &Event) -> bool {
    match event {
        Event::WorkspaceSyncUnchanged(_) => {
            let content = Arc::make_mut(content);
            (content.sync, content.sync_failure) = (None, None);
        }
        Event::WorkspaceSnapshotReady(ready) => {
            let content = Arc::make_mut(content);
            (content.sync, content.sync_failure) = (None, None);
            content.pending = Some(Arc::new(Snapshot::clone(&ready.snapshot)));
        }
        Event::WorkspaceApplyRequested(requested) => Arc::make_mut(content).armed = Some(requested.mode),
        Event::WorkspaceApplied(_) => {
            let content = Arc::make_mut(content);
            content.active = content.pending.take().or(content.active.take());
            content.armed = None;
        }
        Event::WorkspaceApplyFailed(_) => Arc::make_mut(content).armed = None,
        Event::StepStarted(started) => Arc::make_mut(content).start_step(started),
        Event::BoundCallStarted(started) => {
            let open = OpenBoundCall { name: started.name.clone(), operation: started.operation.clone() };
            Arc::make_mut(content).open_calls.insert(started.call, open);
        }
        Event::BoundCallFinished(finished) => {
            Arc::make_mut(content).open_calls.remove(&finished.call);
        }
        Event::BoundCallInterrupted(interrupted) => {
            Arc::make_mut(content).open_calls.remove(&interrupted.call);
        }
        _ => return false,
    }
    true
}
