//! The content part of a session's state: what the journal's content events fold to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::binding::Operation;
use super::event::{ApplyMode, RunEnded, SyncRequested};
use super::fault::Stage;
use super::run::{Run, RunStatus, RunSummary};
use super::snapshot::Snapshot;
use crate::event::{Event, Recorded};
use crate::{CallId, RunId, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContentState {
    /// What steps are made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Box<Snapshot>>,
    /// Read and valid, and not adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Box<Snapshot>>,
    /// When the staged snapshot is to be adopted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub armed: Option<ApplyMode>,
    /// A sync without an outcome yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<OpenSync>,
    /// Why the last sync failed; cleared by one that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_failure: Option<SyncFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Box<Run>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub runs: BTreeMap<RunId, RunSummary>,
    /// Calls of the run without an outcome yet.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub open_calls: BTreeMap<CallId, OpenBoundCall>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSync {
    /// The event that asked for it.
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

    /// The snapshot the run at hand works with.
    pub fn in_use(&self) -> Option<&Snapshot> {
        let pinned = self.run.as_ref().and_then(|run| run.pinned.as_deref());
        pinned.or(self.active.as_deref())
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

/// Folds one event, if it is one of content's; says whether it was.
pub(crate) fn apply(content: &mut ContentState, recorded: &Recorded) -> bool {
    match &recorded.event {
        Event::WorkspaceSyncRequested(requested) => {
            content.sync = Some(OpenSync { seq: recorded.seq, requested: (**requested).clone() });
        }
        Event::WorkspaceSyncUnchanged(_) => {
            content.sync = None;
            content.sync_failure = None;
        }
        Event::WorkspaceSnapshotReady(ready) => {
            content.sync = None;
            content.sync_failure = None;
            content.pending = Some(ready.snapshot.clone());
        }
        Event::WorkspaceSyncFailed(failed) => {
            // A refused request never had a sync of its own: the one under way goes on.
            if failed.stage != Stage::Authorize {
                content.sync = None;
            }
            let (workspace, stage, detail) = (failed.workspace.clone(), failed.stage, failed.detail.clone());
            content.sync_failure = Some(SyncFailure { seq: recorded.seq, workspace, stage, detail });
        }
        Event::WorkspaceApplyRequested(requested) => content.armed = Some(requested.mode),
        Event::WorkspaceApplied(_) => {
            content.active = content.pending.take().or(content.active.take());
            content.armed = None;
        }
        Event::WorkspaceApplyFailed(_) => content.armed = None,
        Event::RunStarted(started) => {
            let summary = RunSummary {
                status: RunStatus::Running,
                provider: started.provider.clone(),
                model: started.model.clone(),
                steps: 0,
                started_at: recorded.at,
                ended_at: None,
                code: None,
                detail: None,
            };
            content.runs.insert(started.run, summary);
            content.run = Some(Box::new(Run::of(started)));
        }
        Event::StepStarted(started) => {
            if let Some(run) = content.run.as_mut().filter(|run| run.id == started.run) {
                run.step = started.step;
                run.history.extend(started.messages.clone());
                run.overrides = started.overrides.clone();
            }
            if let Some(summary) = content.runs.get_mut(&started.run) {
                summary.steps = started.step;
            }
        }
        Event::RunCompleted(ended) => content.end_run(ended, RunStatus::Completed, recorded.at),
        Event::RunFailed(ended) => content.end_run(ended, RunStatus::Failed, recorded.at),
        Event::RunCancelled(ended) => content.end_run(ended, RunStatus::Cancelled, recorded.at),
        Event::BoundCallStarted(started) => {
            let open = OpenBoundCall { name: started.name.clone(), operation: started.operation.clone() };
            content.open_calls.insert(started.call, open);
        }
        Event::BoundCallFinished(finished) => {
            content.open_calls.remove(&finished.call);
        }
        Event::BoundCallInterrupted(interrupted) => {
            content.open_calls.remove(&interrupted.call);
        }
        Event::BoundCallRefused(_) => {}
        // A built-in tool's own events end its call here, too.
        Event::ToolCallFinished { call, .. } | Event::ToolCallInterrupted { call, .. } => {
            content.open_calls.remove(call);
            return false;
        }
        _ => return false,
    }
    true
}
