//! An open session: its state, its workspace, and the only two ways to change it.
//!
//! [`OpenSession::commit`] decides on a command, appends the events and only then returns the effect.
//! [`OpenSession::record`] concludes from an outcome and appends. Both append at the sequence number of
//! the state they used. One process owns the store and has one cell per session, so a conflict means
//! that another process wrote to the journal. The cell and its workspace handle are then stale. The
//! engine drops both and opens the session from its journal, as after a restart.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_core::clock_history::BootTime;
use stead_core::event::CloseReason;
use stead_core::exec::Exec;
use stead_core::quantity::ByteSize;
use stead_core::rewind::Points;
use stead_core::{
    Actor, AuditKind, Command, Effect, Event, ExecId, Outcome, Recorded, Resource, SessionId, State, Status, Timestamp,
    apply, conclude, conclude_onward, decide, decide_onward,
};
use stead_providers::Workspace;
use stead_store::{Admission, Commit, CommitError, Head, IdempotencyClaim, NewEvent, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::clock::Times;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal_size::{self, JournalSize};
use crate::pause::Pause;
use crate::uploads::Charge;
use crate::{audit, clock, points, recover};

/// Attempts to append an outcome or a refusal when other writers append to the journal first.
const RETRIES: usize = 16;
/// How many events are read at a time.
const PAGE: u32 = 512;

/// What the process keeps of a session it works on.
pub(crate) struct Cell {
    state: tokio::sync::Mutex<State>,
    seq: watch::Sender<u64>,
    workspace: Mutex<Option<Arc<dyn Workspace>>>,
    /// Set once the session has an event.
    times: Mutex<Option<Times>>,
    /// Held by whoever does the session's long work: one at a time.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Exports of this session that may run at once.
    exports: Arc<Semaphore>,
    /// Bytes of all uploads under way.
    uploads: Arc<AtomicU64>,
    journal: JournalSize,
}

/// An export runs as slowly as its client reads, and holds a thread and a job in the box meanwhile.
const MOST_EXPORTS: usize = 4;

impl Cell {
    pub(crate) fn new(state: State) -> Arc<Self> {
        let seq = watch::Sender::new(state.seq);
        Arc::new(Self {
            state: state.into(),
            seq,
            workspace: Mutex::default(),
            times: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            exports: Arc::new(Semaphore::new(MOST_EXPORTS)),
            uploads: Arc::default(),
            journal: JournalSize::default(),
        })
    }

    fn times(&self) -> MutexGuard<'_, Option<Times>> {
        // Set as a whole: a panic elsewhere leaves it whole.
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.seq.subscribe()
    }
}

/// An intent that is durable.
pub(crate) struct Intent {
    pub(crate) effect: Option<Effect>,
    /// When it was recorded: the time of everything the effect does.
    pub(crate) at: Timestamp,
    /// The number of its first event.
    pub(crate) first_seq: u64,
}

/// What only the first commit of a session carries.
pub(crate) struct Birth {
    pub(crate) admission: Option<Admission>,
    pub(crate) idempotency: Option<IdempotencyClaim>,
}

/// What a commit carries besides its events.
#[derive(Default)]
struct Attached {
    create: bool,
    admission: Option<Admission>,
    idempotency: Option<IdempotencyClaim>,
}

#[derive(Clone)]
pub(crate) struct OpenSession {
    engine: Engine,
    id: SessionId,
    cell: Arc<Cell>,
}

impl OpenSession {
    /// The session as the journal has it.
    pub(crate) async fn open(engine: &Engine, id: SessionId) -> Result<Self, OpError> {
        let cell = match engine.cell(id) {
            Some(cell) => cell,
            None => load_cell(engine, id).await?,
        };
        Ok(Self { engine: engine.clone(), id, cell })
    }

    /// A session that is about to have its first event.
    pub(crate) fn unborn(engine: &Engine, id: SessionId) -> Self {
        Self { engine: engine.clone(), id, cell: Cell::new(State::default()) }
    }

    pub(crate) async fn state(&self) -> State {
        self.cell.state.lock().await.clone()
    }

    /// The boot-clock time at which the session expires, and why; `None` while its age is not known.
    pub(crate) async fn due(&self, now: BootTime) -> Option<(BootTime, CloseReason)> {
        let state = self.cell.state.lock().await;
        let session = state.session.as_ref()?;
        let (created, active) = self.cell.times().as_mut()?.judged(session, self.engine.clock(), now)?;
        session.due_by_boot_clock(created, active)
    }

    pub(crate) async fn exec(&self, exec: ExecId) -> Option<Exec> {
        self.cell.state.lock().await.session.as_ref()?.execs.get(exec).cloned()
    }

    pub(crate) async fn status(&self) -> Status {
        self.cell.state.lock().await.session.as_ref().map_or(Status::Closed, |session| session.status)
    }

    /// What may be spent on keeping files.
    pub(crate) async fn points(&self) -> Points {
        let state = self.cell.state.lock().await;
        let spec = state.session.as_ref().and_then(|session| session.workspace_spec());
        spec.map_or(Points::Off, |spec| spec.rewind.points)
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.cell.watch()
    }

    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.cell.turn.lock().await
    }

    /// Begins an upload, charged to the session's disk limit.
    pub(crate) async fn charge(&self, slack: Slack) -> Charge {
        let limit = self.disk_limit().await.unwrap_or(u64::MAX);
        let limit = match slack {
            Slack::None => limit,
            Slack::Archive => limit.saturating_add(limit / 8).saturating_add(1 << 20),
        };
        Charge::new(self.cell.uploads.clone(), limit)
    }

    async fn disk_limit(&self) -> Option<u64> {
        disk_limit(&*self.cell.state.lock().await)
    }

    /// Waits until this session, and the server, may run one more export.
    pub(crate) async fn export_permits(&self) -> Result<[OwnedSemaphorePermit; 2], OpError> {
        let own = self.cell.exports.clone().acquire_owned().await.map_err(|_| OpError::ShuttingDown)?;
        let all = self.engine.exports().acquire_owned().await.map_err(|_| OpError::ShuttingDown)?;
        Ok([own, all])
    }

    pub(crate) fn workspace(&self) -> Option<Arc<dyn Workspace>> {
        self.cell.workspace.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_workspace(&self, workspace: Option<Arc<dyn Workspace>>) {
        *self.cell.workspace.lock().unwrap_or_else(PoisonError::into_inner) = workspace;
    }

    /// Asks. The effect exists only once the intent is on disk.
    pub(crate) async fn commit(&self, command: Command, actor: &Actor) -> Result<Intent, OpError> {
        self.commit_claimed(command, actor, None).await
    }

    /// Asks, and claims an idempotency key with it. That somebody claimed it just now is [`OpError::Contended`].
    pub(crate) async fn commit_claimed(
        &self,
        command: Command,
        actor: &Actor,
        claim: Option<IdempotencyClaim>,
    ) -> Result<Intent, OpError> {
        let mut state = self.cell.state.lock().await;
        if journal_size::grows(&command) {
            self.cell.journal.check(&self.engine, self.id, disk_limit(&state)).await?;
        }
        let step = decide(&state, command, actor)?;
        let (at, first_seq) = (clock::now(), state.seq + 1);
        if step.events.is_empty() {
            return Ok(Intent { effect: step.effect, at, first_seq });
        }
        let with = Attached { idempotency: claim, ..Attached::default() };
        match self.append(&mut state, step.events, at, with).await {
            Ok(()) => Ok(Intent { effect: step.effect, at, first_seq }),
            Err(CommitError::Conflict { .. }) => {
                self.drop_stale();
                Err(OpError::Contended)
            }
            Err(error) => Err(op_error(error)),
        }
    }

    /// Drops the cell and its workspace handle, and has the session taken up again. Does nothing if the cell was dropped before.
    fn drop_stale(&self) {
        self.set_workspace(None);
        if !self.engine.drop_stale_cell(self.id, &self.cell) {
            return;
        }
        tracing::error!(session = %self.id, "something else wrote to the journal; the session is read again");
        recover::take_up_again(&self.engine, self.id);
    }

    /// Returns true if this handle's cell was dropped and the session has a newer cell.
    pub(crate) fn is_stale(&self) -> bool {
        self.engine.cell(self.id).is_some_and(|cell| !Arc::ptr_eq(&cell, &self.cell))
    }

    /// The first commit, with the intent to do what is due first. On success the session is open in the engine.
    pub(crate) async fn commit_birth(
        &self,
        command: Command,
        actor: &Actor,
        birth: Birth,
    ) -> Result<Intent, BirthError> {
        let mut state = self.cell.state.lock().await;
        let at = clock::now();
        let step = decide_onward(&state, command, actor, at).map_err(OpError::from)?;
        let with = Attached { create: true, admission: birth.admission, idempotency: birth.idempotency };
        self.append(&mut state, step.events, at, with).await?;
        if state.session.as_ref().is_some_and(|session| session.live()) {
            self.engine.keep_cell(self.id, self.cell.clone());
        }
        Ok(Intent { effect: step.effect, at, first_seq: 1 })
    }

    /// States what happened. It cannot be refused, only fail to be written. `None`: it has its outcome already, and this one is not kept.
    pub(crate) async fn record(&self, outcome: Outcome) -> Result<Option<u64>, OpError> {
        let mut session = self.clone();
        for _ in 0..RETRIES {
            match session.try_record(&outcome).await {
                Err(OpError::Contended) => session = Self::open(&self.engine, self.id).await?,
                recorded => return recorded,
            }
        }
        Err(OpError::Contended)
    }

    async fn try_record(&self, outcome: &Outcome) -> Result<Option<u64>, OpError> {
        let mut state = self.cell.state.lock().await;
        let events = conclude(&state, outcome.clone());
        if events.is_empty() {
            return Ok(None);
        }
        self.append_or_drop(&mut state, events, clock::now()).await?;
        Ok(Some(state.seq))
    }

    /// Records, however long it takes the store to take it: what happened must not be forgotten because a disk was full.
    pub(crate) async fn record_surely(&self, outcome: Outcome) -> Result<Option<u64>, OpError> {
        let mut pause = Pause::new();
        loop {
            match self.record(outcome.clone()).await {
                Err(error @ (OpError::Store(_) | OpError::Contended)) => {
                    tracing::warn!(session = %self.id, error = &error as &dyn std::error::Error, "cannot record yet");
                    pause.wait(&self.engine).await.map_err(|_| error)?;
                }
                recorded => return recorded,
            }
        }
    }

    /// Records, however long it takes, and with it the intent to do what is due next, if anything is. `None` as of [`OpenSession::record`].
    pub(crate) async fn record_onward(&self, outcome: Outcome) -> Result<Option<Intent>, OpError> {
        let mut pause = Pause::new();
        loop {
            match self.try_record_onward(&outcome).await {
                // The session goes on under another cell, which decides itself what is due next.
                Err(OpError::Contended) if self.is_stale() => {
                    return self.record_surely(outcome).await.map(|_| None);
                }
                Err(error @ (OpError::Store(_) | OpError::Contended)) => {
                    tracing::warn!(session = %self.id, error = &error as &dyn std::error::Error, "cannot record yet");
                    pause.wait(&self.engine).await.map_err(|_| error)?;
                }
                recorded => return recorded,
            }
        }
    }

    async fn try_record_onward(&self, outcome: &Outcome) -> Result<Option<Intent>, OpError> {
        let mut state = self.cell.state.lock().await;
        let (at, first_seq) = (clock::now(), state.seq + 1);
        let step = conclude_onward(&state, outcome.clone(), at);
        if step.events.is_empty() {
            return Ok(None);
        }
        self.append_or_drop(&mut state, step.events, at).await?;
        Ok(Some(Intent { effect: step.effect, at, first_seq }))
    }

    /// Records a refusal of a live session; of one that has ended only the audit log tells.
    pub(crate) async fn record_refusal(&self, refusal: Event) -> Result<(), OpError> {
        let mut session = self.clone();
        for _ in 0..RETRIES {
            match session.try_record_refusal(&refusal).await {
                Err(OpError::Contended) => session = Self::open(&self.engine, self.id).await?,
                recorded => return recorded,
            }
        }
        Err(OpError::Contended)
    }

    async fn try_record_refusal(&self, refusal: &Event) -> Result<(), OpError> {
        let mut state = self.cell.state.lock().await;
        let at = clock::now();
        if !state.session.as_ref().is_some_and(|session| session.live()) {
            let entries = audit::entries(self.id, refusal, at);
            return Ok(self.engine.store().record_audit(entries).await?);
        }
        self.append_or_drop(&mut state, vec![refusal.clone()], at).await
    }

    /// Appends; a conflict drops the cell and is [`OpError::Contended`].
    async fn append_or_drop(&self, state: &mut State, events: Vec<Event>, at: Timestamp) -> Result<(), OpError> {
        match self.append(state, events, at, Attached::default()).await {
            Err(CommitError::Conflict { .. }) => {
                self.drop_stale();
                Err(OpError::Contended)
            }
            appended => appended.map_err(op_error),
        }
    }

    /// Appends at the state's sequence number and, once that is durable, moves the state on.
    async fn append(
        &self,
        state: &mut State,
        events: Vec<Event>,
        at: Timestamp,
        with: Attached,
    ) -> Result<(), CommitError> {
        let mut after = state.clone();
        let mut rows = Vec::with_capacity(events.len());
        let mut entries = Vec::new();
        let other_starts: Vec<(AuditKind, String)> =
            events.iter().filter_map(audit::other_start).map(|(kind, reason)| (kind, reason.to_owned())).collect();
        for (event, seq) in events.into_iter().zip(state.seq + 1..) {
            let row = NewEvent { kind: event.kind().to_owned(), payload: payload(&event) };
            self.cell.journal.add(&event, row.payload.len());
            rows.push(row);
            entries.extend(audit::entries(self.id, &event, at));
            apply(&mut after, &Recorded { seq, at, event });
        }
        let Attached { create, admission, idempotency } = with;
        let commit = Commit {
            session: self.id,
            expected_seq: (!create).then_some(state.seq),
            create,
            at,
            events: rows,
            head: head(&after),
            audit: entries,
            admission,
            idempotency,
        };
        let expected = commit.events.clone();
        match self.engine.store().commit(commit).await {
            Ok(_) => {}
            // Nobody knows whether it is in the journal but the journal.
            Err(CommitError::Store(error @ StoreError::OutcomeUnknown { .. })) => {
                if !self.is_recorded(state.seq, &expected).await? {
                    return Err(error.into());
                }
            }
            Err(error) => return Err(error),
        }
        other_starts.iter().for_each(|(kind, reason)| audit::announce(self.id, *kind, reason));
        let ended = !after.session.as_ref().is_some_and(|session| session.live());
        points::forget(&self.engine, self, state, &after);
        *state = after;
        if let Some(session) = &state.session {
            self.cell.times().get_or_insert_with(|| Times::of_new(session)).note(session, at);
        }
        self.cell.seq.send_replace(state.seq);
        if ended {
            self.set_workspace(None);
            self.engine.drop_cell(self.id);
        }
        Ok(())
    }
}

impl OpenSession {
    /// Whether exactly these events follow a place in the journal.
    async fn is_recorded(&self, after: u64, expected: &[NewEvent]) -> Result<bool, StoreError> {
        let count = u32::try_from(expected.len()).unwrap_or(u32::MAX);
        let found = self.engine.store().events(self.id, after, count).await?;
        let same = found.iter().zip(expected).all(|(found, expected)| found.payload == expected.payload);
        Ok(same && found.len() == expected.len())
    }
}

/// Bytes that an upload may have beyond the disk limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slack {
    None,
    /// Headers and padding.
    Archive,
}

fn disk_limit(state: &State) -> Option<u64> {
    let limits = &state.session.as_ref()?.workspace_spec()?.limits;
    limits.disk.as_ref().map(ByteSize::bytes)
}

/// A first commit that was not made.
pub(crate) enum BirthError {
    Commit(CommitError),
    Op(OpError),
}

impl From<CommitError> for BirthError {
    fn from(error: CommitError) -> Self {
        Self::Commit(error)
    }
}

impl From<OpError> for BirthError {
    fn from(error: OpError) -> Self {
        Self::Op(error)
    }
}

fn op_error(error: CommitError) -> OpError {
    match error {
        CommitError::Store(error) => OpError::Store(error),
        CommitError::Full { max, .. } => OpError::Full { max },
        CommitError::UnknownSession => OpError::NotFound { what: Resource::Session, id: String::new() },
        CommitError::Exists
        | CommitError::Conflict { .. }
        | CommitError::IdempotencyReplay(_)
        | CommitError::IdempotencyMismatch(_) => OpError::Contended,
    }
}

fn payload(event: &Event) -> String {
    // Events are Stead's own values with string keys and whole numbers: they always serialise. An empty object would be refused on
    // reading, which is the loud way to fail were that ever untrue.
    serde_json::to_string(event).unwrap_or_else(|_| "{}".to_owned())
}

fn head(state: &State) -> Head {
    match &state.session {
        Some(session) => Head {
            status: session.status.to_string(),
            live: session.live(),
            holds_workspace: session.workspace.is_some() && !session.degraded,
            agent_type: session.spec.agent_type.to_string(),
            project: session.spec.project.as_ref().map(ToString::to_string),
            due_at: session.due_at().map(|(at, _)| at),
            // While it lives the process has the state; once it has ended only this can be compared with a replay.
            final_hash: (!session.live()).then(|| state.hash()),
        },
        None => Head {
            status: String::new(),
            live: false,
            holds_workspace: false,
            agent_type: String::new(),
            project: None,
            due_at: None,
            final_hash: None,
        },
    }
}

/// A cell for a session nobody has open; kept if the session lives.
async fn load_cell(engine: &Engine, id: SessionId) -> Result<Arc<Cell>, OpError> {
    if let Some(row) = engine.store().head(id).await?.filter(|row| !row.live)
        && let Some(state) = engine.ended().get(id, row.seq)
    {
        return Ok(Cell::new(State::clone(&state)));
    }
    loop {
        let state = load(engine, id).await?;
        let (seq, live) = (state.seq, state.session.as_ref().is_some_and(|session| session.live()));
        if !live {
            engine.ended().keep(id, Arc::new(state.clone()));
            return Ok(Cell::new(state));
        }
        let times = state.session.as_ref().map(|session| engine.clock().of_earlier_run(session));
        let fresh = Cell::new(state);
        *fresh.times() = times;
        let cell = engine.keep_cell(id, fresh.clone());
        // If the session ended while we read, its own cell is gone and ours would stay behind as its ghost.
        let ended_meanwhile = engine.store().head(id).await?.is_some_and(|row| !row.live && row.seq > seq);
        if !ended_meanwhile || !Arc::ptr_eq(&cell, &fresh) {
            return Ok(cell);
        }
        engine.drop_cell(id);
    }
}

/// Reads and folds a journal.
pub(crate) async fn load(engine: &Engine, id: SessionId) -> Result<State, OpError> {
    let mut state = State::default();
    each_event(engine, id, |recorded| {
        apply(&mut state, &recorded);
        Ok(())
    })
    .await?;
    if state.session.is_none() {
        return Err(OpError::NotFound { what: Resource::Session, id: id.to_string() });
    }
    Ok(state)
}

/// Hands over the events of a journal in order, a page in memory at a time.
pub(crate) async fn each_event(
    engine: &Engine,
    id: SessionId,
    mut handle: impl FnMut(Recorded) -> Result<(), OpError>,
) -> Result<(), OpError> {
    let mut after = 0;
    loop {
        let page = engine.store().events(id, after, PAGE).await?;
        let full = page.len() == PAGE as usize;
        for stored in page {
            let seq = stored.seq;
            let event = serde_json::from_str(&stored.payload).map_err(|source| OpError::Corrupt {
                session: id,
                seq,
                source,
            })?;
            handle(Recorded { seq, at: stored.at, event })?;
            after = seq;
        }
        if !full {
            return Ok(());
        }
    }
}
