//! An open session: its state, its workspace, and the only ways to change it.
//!
//! [`OpenSession::commit`] decides on a command, appends the events and only then returns the
//! effect. [`OpenSession::record`] concludes from an outcome and appends.
//! [`OpenSession::commit_finished`] does both for an effect that changed nothing. All append at the
//! sequence number of the state they used (`append.rs`).

mod append;
mod load;
pub(crate) mod port_connection;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_core::clock_history::BootTime;
use stead_core::event::CloseReason;
use stead_core::exec::Exec;
use stead_core::quantity::ByteSize;
use stead_core::rewind::CheckpointCost;
use stead_core::{
    Actor, Command, Effect, Event, ExecId, Outcome, SessionId, State, Status, Step, Timestamp, conclude,
    conclude_with_next, decide, decide_and_conclude, decide_with_next,
};
use stead_providers::Workspace;
use stead_store::{Admission, IdempotencyClaim};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use self::append::{Attached, Entry, Handle, Retry};
use self::port_connection::MOST_CONNECTIONS;
use crate::clock;
use crate::clock::Times;
use crate::effects::network::SessionNetwork;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
use crate::limits::journal_size::{self, JournalSize};
use crate::limits::uploads::Charge;

pub(crate) use append::AppendError;
pub(crate) use load::{each_event, load};

/// The state in memory of an open session.
pub(crate) struct Cell {
    /// Held from a decision until its events are durable and folded.
    appending: tokio::sync::Mutex<()>,
    /// The fold of the journal. Cloning it copies pointers.
    state: Mutex<State>,
    seq: watch::Sender<u64>,
    workspace: Mutex<Option<Arc<dyn Workspace>>>,
    /// The workspace of a frozen box. No operation may use it, because the box does not answer.
    frozen: Mutex<Option<Arc<dyn Workspace>>>,
    /// Set once the session has an event.
    times: Mutex<Option<Times>>,
    /// The connections of the session's box.
    network: Mutex<Option<Arc<SessionNetwork>>>,
    /// Held by the task that does the session's long work, so that there is only one.
    pub(crate) work: tokio::sync::Mutex<()>,
    /// Limits the concurrent exports of this session.
    exports: Arc<Semaphore>,
    /// Bytes of all uploads in progress.
    uploads: Arc<AtomicU64>,
    /// Number of calls in progress that have no event yet.
    unrecorded_calls: AtomicUsize,
    journal: JournalSize,
    /// Limits the open connections to ports of the box.
    port_places: Arc<Semaphore>,
    /// Cuts the connections to ports. Replaced whenever the workspace is.
    port_cut: Mutex<CancellationToken>,
}

/// Maximum number of concurrent exports of a session. An export runs as slowly as its client reads,
/// and holds a thread and a job in the box meanwhile.
const MOST_EXPORTS: usize = 4;

impl Cell {
    pub(crate) fn new(state: State) -> Arc<Self> {
        let seq = watch::Sender::new(state.seq);
        Arc::new(Self {
            appending: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
            seq,
            workspace: Mutex::default(),
            frozen: Mutex::default(),
            times: Mutex::default(),
            network: Mutex::default(),
            work: tokio::sync::Mutex::default(),
            exports: Arc::new(Semaphore::new(MOST_EXPORTS)),
            uploads: Arc::default(),
            unrecorded_calls: AtomicUsize::default(),
            journal: JournalSize::default(),
            port_places: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
            port_cut: Mutex::default(),
        })
    }

    fn state(&self) -> State {
        self.lock_state().clone()
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        // The value is replaced as a whole, so a panic elsewhere cannot corrupt it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn times(&self) -> MutexGuard<'_, Option<Times>> {
        // The value is set as a whole, so a panic elsewhere cannot corrupt it.
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.seq.subscribe()
    }
}

/// An allowed command with its effect.
pub(crate) struct Intent {
    pub(crate) effect: Option<Effect>,
    /// The time of recording, which is the time of everything that the effect does.
    pub(crate) at: Timestamp,
    /// The number of its first event.
    pub(crate) first_seq: u64,
}

/// An allowed call that changes nothing and has no event yet. Until it is dropped, the session does
/// not count as idle.
pub(crate) struct Unrecorded {
    pub(crate) effect: Option<Effect>,
    pub(crate) at: Timestamp,
    cell: Arc<Cell>,
}

impl Drop for Unrecorded {
    fn drop(&mut self) {
        self.cell.unrecorded_calls.fetch_sub(1, Relaxed);
    }
}

/// Keeps a session from being idle until it is dropped.
pub(crate) struct Active(Arc<Cell>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.unrecorded_calls.fetch_sub(1, Relaxed);
    }
}

/// The parts that only the first commit of a session has.
pub(crate) struct Birth {
    pub(crate) admission: Admission,
    pub(crate) idempotency: Option<IdempotencyClaim>,
}

#[derive(Clone)]
pub(crate) struct OpenSession {
    engine: Engine,
    id: SessionId,
    cell: Arc<Cell>,
}

impl OpenSession {
    /// Opens a session, from its cell or from its journal.
    pub(crate) async fn open(engine: &Engine, id: SessionId) -> Result<Self, OpError> {
        let cell = match engine.cell(id) {
            Some(cell) => cell,
            None => load::load_cell(engine, id).await?,
        };
        Ok(Self { engine: engine.clone(), id, cell })
    }

    /// A session that is about to get its first event.
    pub(crate) fn unborn(engine: &Engine, id: SessionId) -> Self {
        Self { engine: engine.clone(), id, cell: Cell::new(State::default()) }
    }

    /// Returns the state with every event that is in the journal by now. Waits for an append in
    /// progress, whose events may already be readable in the store.
    pub(crate) async fn state(&self) -> State {
        let _appended = self.cell.appending.lock().await;
        self.cell.state()
    }

    /// Returns the boot-clock time at which the session expires, and the reason. `None` while its
    /// age is not known.
    pub(crate) async fn due(&self, now: BootTime) -> Option<(BootTime, CloseReason)> {
        let state = self.state().await;
        let session = state.session.as_deref()?;
        let (began, active) = self.cell.times().as_mut()?.judged(session, self.engine.clock(), now)?;
        let working = self.cell.unrecorded_calls.load(Relaxed) > 0;
        session.due_by_boot_clock(began, if working { now } else { active })
    }

    pub(crate) async fn exec(&self, exec: ExecId) -> Option<Exec> {
        self.state().await.session?.execs.get(exec).cloned()
    }

    pub(crate) async fn status(&self) -> Status {
        self.state().await.session.map_or(Status::Closed, |session| session.status)
    }

    /// The session's setting for checkpoints.
    pub(crate) async fn checkpoint_cost(&self) -> CheckpointCost {
        let state = self.state().await;
        let spec = state.session.as_ref().and_then(|session| session.workspace_spec());
        spec.map_or(CheckpointCost::Off, |spec| spec.rewind.points)
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.cell.watch()
    }

    pub(crate) async fn work_lock(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.cell.work.lock().await
    }

    /// Starts an upload, charged to the session's disk limit.
    pub(crate) async fn charge(&self, slack: Slack) -> Charge {
        let limit = disk_limit(&self.state().await).unwrap_or(u64::MAX);
        let limit = match slack {
            Slack::None => limit,
            Slack::Archive => limit.saturating_add(limit / 8).saturating_add(1 << 20),
        };
        Charge::new(self.cell.uploads.clone(), limit)
    }

    /// Waits until this session and the server may run one more export.
    pub(crate) async fn export_permits(&self) -> Result<[OwnedSemaphorePermit; 2], OpError> {
        let own = self.cell.exports.clone().acquire_owned().await.map_err(|_| OpError::ShuttingDown)?;
        let all = self.engine.exports().acquire_owned().await.map_err(|_| OpError::ShuttingDown)?;
        Ok([own, all])
    }

    pub(crate) fn workspace(&self) -> Option<Arc<dyn Workspace>> {
        self.cell.workspace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The connections of the session's box; `None` without a network or without a workspace.
    pub(crate) fn network(&self) -> Option<Arc<SessionNetwork>> {
        self.cell.network.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_workspace(&self, workspace: Option<Arc<dyn Workspace>>) {
        let session = self.cell.state().session;
        {
            let mut network = self.cell.network.lock().unwrap_or_else(PoisonError::into_inner);
            // A network follows all boxes of its workspace, also the one after a pause.
            let live = network.take().filter(|network| workspace.is_some() && network.is_live());
            *network = live.or_else(|| {
                let (workspace, session) = workspace.as_ref().zip(session)?;
                SessionNetwork::begin(&self.engine, self.id, &session, workspace)
            });
        }
        *self.cell.workspace.lock().unwrap_or_else(PoisonError::into_inner) = workspace;
        self.cut_ports();
    }

    /// Returns a place among the open connections to ports, `None` if all are taken, and the token
    /// that cuts the connection. Take both before the workspace, whose removal cuts it.
    pub(crate) fn port_place(&self) -> (Option<OwnedSemaphorePermit>, CancellationToken) {
        let cut = self.cell.port_cut.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.cell.port_places.clone().try_acquire_owned().ok(), cut)
    }

    /// Cuts all connections to ports. A lent socket would keep the box's network namespace alive.
    fn cut_ports(&self) {
        let mut cut = self.cell.port_cut.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *cut).cancel();
    }

    /// Keeps the session from being idle until the value is dropped.
    pub(crate) fn stay_active(&self) -> Active {
        self.cell.unrecorded_calls.fetch_add(1, Relaxed);
        Active(self.cell.clone())
    }

    /// Hides the workspace from operations, for a pause.
    pub(crate) fn hide_workspace(&self) {
        let workspace = self.cell.workspace.lock().unwrap_or_else(PoisonError::into_inner).take();
        if workspace.is_some() {
            *self.cell.frozen.lock().unwrap_or_else(PoisonError::into_inner) = workspace;
        }
        self.cut_ports();
    }

    /// Forgets the hidden workspace.
    pub(crate) fn forget_hidden(&self) {
        self.cell.frozen.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Gives the hidden workspace back to operations. Returns false if there is none.
    pub(crate) fn show_workspace(&self) -> bool {
        let hidden = self.cell.frozen.lock().unwrap_or_else(PoisonError::into_inner).take();
        let found = hidden.is_some();
        if found {
            // Its network was served all the time.
            *self.cell.workspace.lock().unwrap_or_else(PoisonError::into_inner) = hidden;
        }
        found
    }

    /// Returns true if this handle's cell was dropped and the session has a newer cell.
    pub(crate) fn is_stale(&self) -> bool {
        self.engine.cell(self.id).is_some_and(|cell| !Arc::ptr_eq(&cell, &self.cell))
    }
}

/// Commands, which are allowed or refused.
impl OpenSession {
    /// Decides on a command. Returns the effect only after the intent is durable.
    pub(crate) async fn commit(&self, command: Command, actor: &Actor) -> Result<Intent, OpError> {
        self.commit_claimed(command, actor, |_| None).await
    }

    /// Decides on a command and claims the idempotency key that `claim` returns for the decision.
    /// Returns [`OpError::Contended`] if another request has just claimed the key.
    pub(crate) async fn commit_claimed(
        &self,
        command: Command,
        actor: &Actor,
        claim: impl FnOnce(&Step) -> Option<IdempotencyClaim>,
    ) -> Result<Intent, OpError> {
        self.check_journal(&command).await?;
        let appended = self.append_once(|state| {
            let step = decide(state, command, actor)?;
            let with = Attached { idempotency: claim(&step), ..Attached::default() };
            let at = clock::now();
            let intent = Intent { effect: step.effect, at, first_seq: state.seq + 1 };
            Ok(Entry { events: step.events, at, with, value: intent })
        });
        Ok(appended.await?)
    }

    /// Decides on a command that takes a place among the sessions with a workspace.
    pub(crate) async fn commit_admitted(
        &self,
        command: Command,
        actor: &Actor,
        admission: Admission,
    ) -> Result<Intent, OpError> {
        let appended = self.append_once(|state| {
            let step = decide(state, command, actor)?;
            let with = Attached { admission: Some(admission), ..Attached::default() };
            let at = clock::now();
            let intent = Intent { effect: step.effect, at, first_seq: state.seq + 1 };
            Ok(Entry { events: step.events, at, with, value: intent })
        });
        Ok(appended.await?)
    }

    /// Makes the first commit, with the intent of the first due work. On success the session is
    /// open in the engine.
    pub(crate) async fn commit_birth(
        &self,
        command: Command,
        actor: &Actor,
        birth: Birth,
    ) -> Result<Intent, AppendError> {
        let with = Attached { create: true, admission: Some(birth.admission), idempotency: birth.idempotency };
        let appended = self.append_once(|state| {
            let at = clock::now();
            let step = decide_with_next(state, command, actor, at)?;
            let intent = Intent { effect: step.effect, at, first_seq: 1 };
            Ok(Entry { events: step.events, at, with, value: intent })
        });
        let intent = appended.await?;
        if self.cell.state().session.is_some_and(|session| session.live()) {
            self.engine.keep_cell(self.id, self.cell.clone());
        }
        Ok(intent)
    }

    /// Decides without recording, for a call that changes nothing. [`Self::commit_finished`]
    /// decides again when the call is over. A permission based on an outdated state therefore does
    /// no harm.
    pub(crate) async fn ask_unrecorded(&self, command: &Command, actor: &Actor) -> Result<Unrecorded, OpError> {
        self.check_journal(command).await?;
        let step = match decide(&self.cell.state(), command.clone(), actor) {
            Ok(step) => step,
            Err(_) => decide(&self.state().await, command.clone(), actor)?,
        };
        self.cell.unrecorded_calls.fetch_add(1, Relaxed);
        Ok(Unrecorded { effect: step.effect, at: clock::now(), cell: self.cell.clone() })
    }

    /// Records a call that changed nothing, from its start to its outcome. Returns the number of
    /// the last event. Refused if the session was closed meanwhile.
    pub(crate) async fn commit_finished(
        &self,
        command: Command,
        outcome: Outcome,
        actor: &Actor,
    ) -> Result<u64, OpError> {
        let appended = self.append_once(|state| {
            let at = clock::now();
            let events = decide_and_conclude(state, command, outcome, actor, at)?;
            let value = state.seq + events.len() as u64;
            Ok(Entry { events, at, with: Attached::default(), value })
        });
        Ok(appended.await?)
    }

    async fn check_journal(&self, command: &Command) -> Result<(), OpError> {
        if !journal_size::grows(command) {
            return Ok(());
        }
        let limit = disk_limit(&self.cell.state());
        self.cell.journal.check(&self.engine, self.id, limit).await
    }
}

/// Outcomes, which cannot be refused.
impl OpenSession {
    /// Records an outcome and returns the number of its last event. `None` if the effect already
    /// has an outcome, in which case this one is dropped.
    pub(crate) async fn record(&self, outcome: Outcome) -> Result<Option<u64>, OpError> {
        self.append_with(Retry::Reopened, |state, _| Ok(concluded(state, &outcome))).await
    }

    /// Like [`OpenSession::record`], and retries until the store accepts it. An outcome must not be
    /// lost because a disk was full.
    pub(crate) async fn record_surely(&self, outcome: Outcome) -> Result<Option<u64>, OpError> {
        self.append_with(Retry::Surely, |state, _| Ok(concluded(state, &outcome))).await
    }

    /// Like [`OpenSession::record_surely`], and records the intent of the next due work with it.
    /// `None` as in [`OpenSession::record`].
    pub(crate) async fn record_with_next(&self, outcome: Outcome) -> Result<Option<Intent>, OpError> {
        let appended = self.append_with(Retry::Surely, |state, handle| {
            if handle == Handle::Reopened {
                // The session continues in another cell, which decides what is due next.
                return Ok(concluded(state, &outcome).map(|_| None));
            }
            let at = clock::now();
            let step = conclude_with_next(state, outcome.clone(), at);
            let intent = Intent { effect: step.effect, at, first_seq: state.seq + 1 };
            let value = (!step.events.is_empty()).then_some(intent);
            Ok(Entry { events: step.events, at, with: Attached::default(), value })
        });
        appended.await
    }

    /// Records an event that no command decides on. Returns false if the session has ended.
    pub(crate) async fn note(&self, event: Event) -> Result<bool, OpError> {
        self.append_with(Retry::Reopened, |state, _| {
            let live = state.session.as_ref().is_some_and(|session| session.live());
            let events = if live { vec![event.clone()] } else { Vec::new() };
            Ok(Entry { events, at: clock::now(), with: Attached::default(), value: live })
        })
        .await
    }

    /// Records a refusal in the journal of a live session, or in the audit log if the session has
    /// ended.
    pub(crate) async fn record_refusal(&self, refusal: Event) -> Result<(), OpError> {
        if !self.note(refusal.clone()).await? {
            let entries = audit::entries(self.id, &refusal, clock::now());
            self.engine.store().record_audit(entries).await?;
        }
        Ok(())
    }
}

fn concluded(state: &State, outcome: &Outcome) -> Entry<Option<u64>> {
    let events = conclude(state, outcome.clone());
    let value = (!events.is_empty()).then_some(state.seq + events.len() as u64);
    Entry { events, at: clock::now(), with: Attached::default(), value }
}

/// Bytes that an upload may have beyond the disk limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slack {
    None,
    /// For headers and padding.
    Archive,
}

fn disk_limit(state: &State) -> Option<u64> {
    let limits = &state.session.as_ref()?.workspace_spec()?.limits;
    limits.disk.as_ref().map(ByteSize::bytes)
}
