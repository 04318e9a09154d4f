//! The state of a session, folded from its journal.
//!
//! [`fold`] is total and pure: it never refuses a recorded event. [`State::canonical`] returns the
//! state as canonical bytes, so two folds are equal exactly if their bytes are equal.

pub mod box_facts;
mod checkpoint_fold;
pub mod digest;
pub mod door_host;
pub mod exec;
mod fingerprint;
pub mod hash_absence;
pub mod pause;
pub mod rewind;
mod snapshot_hashes;
pub mod timeline;
pub mod warning;

pub use hash_absence::HashAbsence;
pub use warning::Warning;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::box_facts::BoxFacts;
use crate::capability::LimitKind;
use crate::clock_history::BootTime;
use crate::config::ProviderName;
use crate::content::{self, ContentState};
use crate::digest::KeptDigest;
use crate::event::{CloseReason, Event, Failure, FileEffect, FileOperation, Recorded, StepReport};
use crate::exec::{End, Execs};
use crate::identity::Actor;
use crate::network::{Changes, NetworkUse};
use crate::parse::words;
use crate::pause::PauseMode;
use crate::plan::Action;
use crate::resolved_commit::ResolvedCommit;
use crate::rewind::Checkpoints;
use crate::setup_cache::{SetupCacheOutcome, SetupCacheReport};
use crate::spec::{SessionSpec, WorkspaceSpec};
use crate::timeline::Timeline;
use crate::tool::ToolName;
use crate::{CallId, ExecId, Name, SessionId, SnapshotId, Timestamp};

words!(
    Status, "session status", {
        Provisioning = "provisioning",
        Active = "active",
        /// The box is stopped or frozen on request. The session refuses calls until it is resumed.
        Paused = "paused",
        Closing = "closing",
        Closed = "closed",
        Failed = "failed",
    }
);

words!(
    WorkspaceStatus, "workspace status", {
        /// No provider has been asked yet, or the next one is about to be asked.
        Pending = "pending",
        Creating = "creating",
        /// The box exists and the init plan is running.
        Preparing = "preparing",
        Ready = "ready",
        /// The box is about to be stopped or frozen.
        Pausing = "pausing",
        Paused = "paused",
        /// The box is about to run again.
        Resuming = "resuming",
        /// Waiting for removal, after a close or before another attempt.
        Condemned = "condemned",
        Removing = "removing",
        Removed = "removed",
        /// Missing after a restart of the server.
        Lost = "lost",
    }
);

/// The failure of one provider to create the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttempt {
    pub provider: ProviderName,
    pub failure: Failure,
}

/// A call that has no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    pub tool: ToolName,
    pub started_at: Timestamp,
}

/// A snapshot of the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub name: Option<String>,
    /// The event that created it.
    pub seq: u64,
    pub tree_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree_hash_absent: Option<HashAbsence>,
    pub created_at: Timestamp,
}

/// The state of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    pub status: WorkspaceStatus,
    /// Number of the attempt, from 1. Attempt N uses the N-th provider of the spec's list.
    pub attempt: u64,
    /// The provider of the last attempt. It holds the box, if there is one.
    pub provider: Option<ProviderName>,
    pub steps_done: u64,
    pub step_running: bool,
    pub setup_failed: bool,
    /// The result of looking for a kept setup result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup_cache: Option<Arc<SetupCacheReport>>,
    pub enforced_limits: Vec<LimitKind>,
    #[serde(default, skip_serializing_if = "BoxFacts::is_empty")]
    pub made: Arc<BoxFacts>,
    pub failures: Vec<FailedAttempt>,
    /// The combined results of the init actions.
    pub report: Arc<StepReport>,
    pub tree_hash: Option<String>,
    /// The commit that every attempt checks out, once it is resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedCommit>,
    /// Branches that the session has created at the remote.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub branches: BTreeSet<String>,
    /// The way the session is paused. Absent while it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseMode>,
    /// Only for display. Not part of the canonical bytes.
    #[serde(skip)]
    pub timeline: Arc<Timeline>,
}

/// The state of one session. The parts that can be large are shared: a clone copies a few pointers,
/// and folding an event copies only the part that the event changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    pub spec: Arc<SessionSpec>,
    pub status: Status,
    pub degraded: bool,
    pub warnings: Vec<Warning>,
    pub workspace: Option<Workspace>,
    pub open_calls: BTreeMap<CallId, OpenCall>,
    pub open_operations: BTreeMap<CallId, FileOperation>,
    #[serde(default, skip_serializing_if = "Execs::is_empty")]
    pub execs: Arc<Execs>,
    pub snapshots: Arc<BTreeMap<SnapshotId, Snapshot>>,
    /// The checkpoints that the session can be rewound to.
    #[serde(default, rename = "trail", skip_serializing_if = "Checkpoints::is_empty")]
    pub checkpoints: Arc<Checkpoints>,
    #[serde(default, skip_serializing_if = "ContentState::is_empty")]
    pub content: Arc<ContentState>,
    /// The digests of the workspace, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub digests: Arc<BTreeMap<Name, KeptDigest>>,
    /// What the box reached and was refused.
    #[serde(default, skip_serializing_if = "NetworkUse::is_empty")]
    pub network_use: Arc<NetworkUse>,
    /// The changes of the network policy since the session began.
    #[serde(default, skip_serializing_if = "Changes::is_empty")]
    pub network_changes: Changes,
    /// Each port of the box that was opened, with the actor.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub opened_ports: Arc<BTreeSet<(u16, String)>>,
    pub calls: u64,
    pub refusals: u64,
    pub failure: Option<Failure>,
    pub close_reason: Option<CloseReason>,
    pub created_at: Timestamp,
    pub active_at: Timestamp,
    pub expires_at: Timestamp,
    /// The time of the event that set `expires_at`. Absent while the TTL of the spec decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_set_at: Option<Timestamp>,
    /// The actor that created the session. Derived for display: it is not part of the canonical
    /// bytes, so it does not change the hash of any state.
    #[serde(skip)]
    pub owner: Option<Actor>,
    pub ended_at: Option<Timestamp>,
}

/// A session at a position of its journal; `None` before its first event.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct State {
    pub seq: u64,
    pub session: Option<Arc<Session>>,
}

impl State {
    /// Returns the state as RFC 8785 bytes. Two states are equal exactly if these bytes are equal.
    pub fn canonical(&self) -> Vec<u8> {
        crate::canonical::bytes(self)
    }

    pub fn hash(&self) -> String {
        crate::canonical::hash(self)
    }

    /// Folds a whole journal.
    pub fn replay<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> State {
        let mut state = State::default();
        for recorded in events {
            fold(&mut state, recorded);
        }
        state
    }
}

impl Session {
    pub fn workspace_spec(&self) -> Option<&WorkspaceSpec> {
        self.spec.workspace.as_ref()
    }

    /// Returns true if the workspace has this tool. One without a box runs no commands.
    pub fn has_tool(&self, tool: ToolName) -> bool {
        let provider = self.workspace.as_ref().and_then(|workspace| workspace.provider);
        provider != Some(ProviderName::Memory) || !tool.needs_box()
    }

    /// Returns true if the actor has connected to this port of the box before.
    pub fn has_opened(&self, port: u16, actor: &Actor) -> bool {
        self.opened_ports.contains(&(port, actor.to_string()))
    }

    /// Returns true if the session has not ended, or may still hold resources on the host.
    pub fn live(&self) -> bool {
        let holds_workspace = self.workspace.as_ref().is_some_and(|workspace| workspace.holds_something());
        !matches!(self.status, Status::Closed | Status::Failed) || holds_workspace
    }

    /// Returns when the session ends by itself, in wall clock time, if it stays inactive and the
    /// clock is not set.
    pub fn due_at(&self) -> Option<(Timestamp, CloseReason)> {
        self.first_due(self.expires_at, self.active_at.plus_seconds(self.spec.idle_seconds))
    }

    /// Returns the same in boot clock time, for a session whose lifetime began and that was last
    /// active at these times.
    pub fn due_by_boot_clock(&self, began: BootTime, active: BootTime) -> Option<(BootTime, CloseReason)> {
        let lifetime = self.expires_at.millis() - self.lifetime_began().millis();
        self.first_due(began.plus_millis(lifetime), active.plus_seconds(self.spec.idle_seconds))
    }

    /// Returns the time from which the end of the session counts: its creation, or the last change
    /// of its end.
    pub fn lifetime_began(&self) -> Timestamp {
        self.end_set_at.unwrap_or(self.created_at)
    }

    /// Returns true if the session holds a place among the sessions with a workspace. A stopped box
    /// has given its place back.
    pub fn holds_place(&self) -> bool {
        let stopped = |workspace: &Workspace| {
            use WorkspaceStatus::{Condemned, Paused, Removing};
            // Closing a stopped session takes no place again.
            matches!(workspace.status, Paused | Condemned | Removing) && workspace.pause == Some(PauseMode::Stop)
        };
        !self.degraded && self.workspace.as_ref().is_some_and(|workspace| !stopped(workspace))
    }

    fn first_due<T: Ord>(&self, expires_at: T, idle_at: T) -> Option<(T, CloseReason)> {
        if !matches!(self.status, Status::Provisioning | Status::Active | Status::Paused) {
            return None;
        }
        // The idle time does not count during a pause. The end of the session does not move.
        let busy = self.status != Status::Active
            || !self.open_calls.is_empty()
            || !self.open_operations.is_empty()
            || !self.content.open_calls.is_empty()
            || self.execs.running().next().is_some();
        if busy || expires_at <= idle_at {
            Some((expires_at, CloseReason::Expired))
        } else {
            Some((idle_at, CloseReason::Idle))
        }
    }

    /// Records activity. The time never decreases, so a clock that is set back does not make a
    /// session look idle.
    fn was_active(&mut self, at: Timestamp) {
        self.active_at = self.active_at.max(at);
    }

    fn exec_ended(&mut self, exec: ExecId, recorded: &Recorded, end: End) {
        Arc::make_mut(&mut self.execs).end(exec, recorded.seq, recorded.at, end);
        self.was_active(recorded.at);
    }

    fn keep_snapshot(&mut self, id: SnapshotId, name: Option<String>, recorded: &Recorded, files: &FileEffect) {
        let tree_hash = files.tree_hash.clone().or_else(|| files.snapshot_hash.clone());
        let tree_hash_absent = files.snapshot_hash_absent;
        let kept = Snapshot { name, seq: recorded.seq, tree_hash, tree_hash_absent, created_at: recorded.at };
        Arc::make_mut(&mut self.snapshots).insert(id, kept);
    }

    fn keep_tree_hash(&mut self, files: &FileEffect) {
        if let (Some(workspace), Some(hash)) = (&mut self.workspace, &files.tree_hash) {
            workspace.tree_hash = Some(hash.clone());
        }
    }

    fn warn(&mut self, code: &str, message: &str) {
        self.warnings.push(Warning { code: code.to_owned(), message: message.to_owned() });
    }
}

impl Workspace {
    fn new() -> Self {
        Self {
            status: WorkspaceStatus::Pending,
            attempt: 0,
            provider: None,
            steps_done: 0,
            step_running: false,
            setup_failed: false,
            setup_cache: None,
            enforced_limits: Vec::new(),
            made: Arc::default(),
            failures: Vec::new(),
            report: Arc::default(),
            tree_hash: None,
            resolved: None,
            branches: BTreeSet::new(),
            pause: None,
            timeline: Arc::default(),
        }
    }

    /// Returns true if the session began with a kept setup result.
    pub fn setup_cached(&self) -> bool {
        self.setup_cache.as_ref().is_some_and(|found| found.outcome == SetupCacheOutcome::Hit)
    }

    /// Returns the index of the next init action. Setup commands are skipped after one has failed,
    /// or if their kept result is used.
    pub fn due_action(&self, spec: &WorkspaceSpec) -> Option<usize> {
        let skips_setup = self.setup_failed || self.setup_cached();
        let is_due = |action: &Action| !(skips_setup && action.belongs_to_setup());
        let done = usize::try_from(self.steps_done).ok()?;
        Some(done + spec.plan.actions.get(done..)?.iter().position(is_due)?)
    }

    pub fn holds_something(&self) -> bool {
        !matches!(self.status, WorkspaceStatus::Pending | WorkspaceStatus::Removed | WorkspaceStatus::Lost)
    }
}

/// Marks the workspace of a closing session for removal. An attempt in progress keeps its status
/// until it reports its outcome. The task that pauses or resumes the box also removes it, so both
/// never run together.
fn condemn(workspace: &mut Workspace) {
    use WorkspaceStatus::{Paused, Pausing, Ready, Resuming};
    if workspace.holds_something() && matches!(workspace.status, Ready | Pausing | Paused | Resuming) {
        workspace.status = WorkspaceStatus::Condemned;
    }
}

/// Folds one event into the state.
pub fn fold(state: &mut State, recorded: &Recorded) {
    state.seq = recorded.seq;
    if let Event::SessionCreated { session, spec, actor } = &recorded.event {
        state.session = Some(Arc::new(born(*session, spec, actor, recorded.at)));
        return;
    }
    let Some(session) = state.session.as_mut().map(Arc::make_mut) else { return };
    checkpoint_fold::fold(session, recorded);
    if content::state::fold(&mut session.content, recorded) {
        session.refusals += u64::from(matches!(recorded.event, Event::BoundCallRefused(_)));
        session.was_active(recorded.at);
        return;
    }
    if pause::fold(session, recorded) || snapshot_hashes::fold(session, recorded) {
        return;
    }
    match &recorded.event {
        Event::SessionCreated { .. } => {}
        Event::WarningRaised { code, message } => session.warn(code, message),
        Event::SessionActivated { degraded } => {
            session.status = Status::Active;
            session.degraded = *degraded;
            session.was_active(recorded.at);
        }
        Event::SessionFailed { failure } => {
            session.status = Status::Failed;
            session.failure = Some(failure.clone());
            session.ended_at = Some(recorded.at);
        }
        Event::ToolCallStarted { call, tool, .. } => {
            session.open_calls.insert(*call, OpenCall { tool: *tool, started_at: recorded.at });
            session.calls += 1;
            session.was_active(recorded.at);
        }
        Event::ToolCallFinished { call, files, .. } => {
            session.open_calls.remove(call);
            session.was_active(recorded.at);
            session.keep_tree_hash(files);
        }
        Event::FileOperationStarted { call, operation, .. } => {
            session.open_operations.insert(*call, operation.clone());
            session.was_active(recorded.at);
        }
        Event::FileOperationFinished { call, failure, files, .. } => {
            session.was_active(recorded.at);
            let operation = session.open_operations.remove(call).filter(|_| failure.is_none());
            if let Some(FileOperation::Snapshot { snapshot, name }) = operation {
                session.keep_snapshot(snapshot, name, recorded, files);
            }
            session.keep_tree_hash(files);
        }
        Event::FileOperationInterrupted { call, .. } => {
            session.open_operations.remove(call);
        }
        Event::ExecStarted { exec, spec, .. } => {
            Arc::make_mut(&mut session.execs).start(*exec, spec.clone(), recorded.at);
            session.was_active(recorded.at);
        }
        Event::ExecFinished { exec, exit, .. } => session.exec_ended(*exec, recorded, End::Finished(exit.clone())),
        Event::ExecFailed { exec, failure } => session.exec_ended(*exec, recorded, End::Failed(failure.clone())),
        Event::ExecInterrupted { exec, reason } => {
            session.exec_ended(*exec, recorded, End::Interrupted(reason.clone()));
        }
        Event::ActivitySeen { .. } => session.was_active(recorded.at),
        Event::PortOpened { port, actor } => {
            Arc::make_mut(&mut session.opened_ports).insert((*port, actor.to_string()));
            session.was_active(recorded.at);
        }
        Event::ToolCallInterrupted { call, .. } => {
            session.open_calls.remove(call);
        }
        Event::DigestSet { section_key, summary, body, origin, tree, .. } => {
            session.was_active(recorded.at);
            let (summary, body, tree) = (summary.clone(), body.clone(), tree.clone());
            let kept = KeptDigest { summary, body, origin: *origin, tree, set_at: recorded.at };
            Arc::make_mut(&mut session.digests).insert(section_key.clone(), kept);
        }
        Event::DigestCleared { section_key, .. } => {
            Arc::make_mut(&mut session.digests).remove(section_key);
        }
        Event::DigestRefused { .. } | Event::ToolCallRefused { .. } | Event::RewindRefused { .. } => {
            session.refusals += 1;
        }
        Event::CloseRequested { reason, .. } => {
            session.close_reason = Some(*reason);
            session.status = Status::Closing;
            if let Some(workspace) = session.workspace.as_mut() {
                condemn(workspace);
            }
        }
        Event::SessionClosed => {
            session.status = Status::Closed;
            session.ended_at = Some(recorded.at);
        }
        _ => fold_workspace_event(session, recorded),
    }
}

/// Folds an event of provisioning, of the workspace or of its removal.
fn fold_workspace_event(session: &mut Session, recorded: &Recorded) {
    let Some(workspace) = session.workspace.as_mut() else { return };
    Arc::make_mut(&mut workspace.timeline).note(recorded);
    fold_into_workspace(workspace, &recorded.event);
    // The files of a clone come from its source's mounts and bundle.
    let brought = session.spec.workspace.as_ref().and_then(|spec| spec.brought.as_ref());
    if let (Event::ProvisionStarted { .. }, Some(brought)) = (&recorded.event, brought) {
        workspace.report = Arc::new(StepReport::clone(brought));
    }
}

fn born(id: SessionId, spec: &SessionSpec, owner: &Actor, at: Timestamp) -> Session {
    Session {
        id,
        status: Status::Provisioning,
        degraded: false,
        warnings: Vec::new(),
        workspace: spec.workspace.is_some().then(Workspace::new),
        open_calls: BTreeMap::new(),
        open_operations: BTreeMap::new(),
        execs: Arc::default(),
        snapshots: Arc::default(),
        checkpoints: Arc::default(),
        content: Arc::default(),
        digests: Arc::new(spec.digests.clone()),
        network_use: Arc::default(),
        opened_ports: Arc::default(),
        calls: 0,
        refusals: 0,
        network_changes: Changes::default(),
        failure: None,
        close_reason: None,
        created_at: at,
        active_at: at,
        expires_at: at.plus_seconds(spec.ttl_seconds),
        end_set_at: None,
        owner: Some(owner.clone()),
        ended_at: None,
        spec: Arc::new(spec.clone()),
    }
}

fn fold_into_workspace(workspace: &mut Workspace, event: &Event) {
    match event {
        Event::ProvisionStarted { attempt, provider } => {
            workspace.status = WorkspaceStatus::Creating;
            workspace.attempt = *attempt;
            workspace.provider = Some(*provider);
            workspace.steps_done = 0;
            workspace.step_running = false;
            workspace.setup_failed = false;
            workspace.setup_cache = None;
            workspace.report = Arc::default();
            workspace.tree_hash = None;
        }
        Event::WorkspaceCreated { enforced_limits, made, .. } => {
            workspace.status = WorkspaceStatus::Preparing;
            workspace.enforced_limits = enforced_limits.clone();
            workspace.made = Arc::new(made.clone());
        }
        Event::InitStepStarted { .. } => workspace.step_running = true,
        Event::InitStepFinished { step, failure, files, report, .. } => {
            let brought = Arc::make_mut(&mut workspace.report);
            brought.mounts.extend(report.mounts.iter().cloned());
            brought.mount_fingerprint = report.mount_fingerprint.clone().or(brought.mount_fingerprint.take());
            brought.bundle = report.bundle.clone().or(brought.bundle.take());
            brought.checkout = report.checkout.clone().or(brought.checkout.take());
            let found = report.setup_cache.as_deref().filter(|found| found.outcome != SetupCacheOutcome::Kept);
            let found = found.filter(|_| workspace.setup_cache.is_none());
            workspace.setup_cache = found.cloned().map(Arc::new).or(workspace.setup_cache.take());
            workspace.step_running = false;
            workspace.steps_done = *step;
            workspace.setup_failed |= failure.is_some();
            workspace.tree_hash = files.tree_hash.clone().or(workspace.tree_hash.take());
        }
        Event::ProvisionFailed { provider, failure, .. } => {
            workspace.failures.push(FailedAttempt { provider: *provider, failure: failure.clone() });
            workspace.status = WorkspaceStatus::Condemned;
            workspace.step_running = false;
        }
        Event::ProvisionInterrupted { attempt, .. } => {
            // The attempt keeps its number: an interruption is no failure of the provider.
            workspace.attempt = attempt.saturating_sub(1);
            workspace.status = WorkspaceStatus::Condemned;
            workspace.step_running = false;
        }
        Event::RepositoryResolved(resolved) => workspace.resolved = Some(resolved.clone()),
        Event::BranchPushed(pushed) if pushed.made => {
            workspace.branches.insert(pushed.branch.clone());
        }
        Event::WorkspaceReady { .. } | Event::WorkspaceAdopted => workspace.status = WorkspaceStatus::Ready,
        Event::RemovalStarted { .. } => workspace.status = WorkspaceStatus::Removing,
        Event::WorkspaceRemoved => workspace.status = WorkspaceStatus::Removed,
        Event::RemovalFailed { .. } => workspace.status = WorkspaceStatus::Condemned,
        Event::WorkspaceLost { .. } => workspace.status = WorkspaceStatus::Lost,
        _ => {}
    }
}
