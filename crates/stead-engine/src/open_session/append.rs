//! Appends to the journal of an open session. No other code writes events.
//!
//! One process owns the store and has one cell per session, so a conflict means that another
//! process wrote to the journal. The cell and its workspace handle are then stale. The engine drops
//! both and opens the session from its journal, as after a restart.

use std::sync::Arc;

use stead_core::admission::{self, Resources};
use stead_core::{AuditKind, Event, Recorded, Rejection, Resource, State, Timestamp, fold};
use stead_store::{Admission, AuditEntry, Commit, CommitError, Head, IdempotencyClaim, NewEvent, StoreError};

use super::OpenSession;
use crate::backoff::Backoff;
use crate::clock::Times;
use crate::effects::checkpoints;
use crate::error::OpError;
use crate::journal::{audit, search_terms};
use crate::recover;

/// Maximum number of attempts if other processes append to the journal first.
const RETRIES: usize = 16;

/// Events to append, decided on the current state under the lock.
pub(super) struct Entry<T> {
    /// If empty, nothing is written.
    pub(super) events: Vec<Event>,
    pub(super) at: Timestamp,
    pub(super) with: Attached,
    /// Returned once the events are durable.
    pub(super) value: T,
}

impl<T> Entry<T> {
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Entry<U> {
        let Self { events, at, with, value } = self;
        Entry { events, at, with, value: change(value) }
    }
}

/// The parts of a commit besides its events.
#[derive(Default)]
pub(super) struct Attached {
    pub(super) create: bool,
    pub(super) admission: Option<Admission>,
    pub(super) idempotency: Option<IdempotencyClaim>,
}

/// The retries of an append that the store refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// Opens the session again after a conflict, a limited number of times.
    Reopened,
    /// The same, and waits for a failing store until the server stops.
    Surely,
}

/// The cell whose state a decision is made on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Handle {
    /// The cell of the handle that appends.
    Own,
    /// The cell that replaced it after a conflict.
    Reopened,
}

/// The reason why an append was not made.
pub(crate) enum AppendError {
    Commit(CommitError),
    Op(OpError),
    /// Another process wrote to the journal, and the cell is dropped.
    Stale,
    /// The store does not have this session.
    Unknown {
        session: stead_core::SessionId,
    },
}

impl From<Rejection> for AppendError {
    fn from(rejection: Rejection) -> Self {
        Self::Op(rejection.into())
    }
}

impl From<AppendError> for OpError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Op(error) => error,
            AppendError::Unknown { session } => Self::NotFound { what: Resource::Session, id: session.to_string() },
            AppendError::Commit(CommitError::Store(error)) => Self::Store(error),
            AppendError::Commit(CommitError::Full { max, .. }) => Self::Full { max },
            AppendError::Commit(CommitError::Quota(exceeded)) => Self::Quota(exceeded),
            AppendError::Commit(_) | AppendError::Stale => Self::Contended,
        }
    }
}

impl OpenSession {
    /// Decides and appends. Decides again if the store refuses the append.
    pub(super) async fn append_with<T>(
        &self,
        retry: Retry,
        decide: impl Fn(&State, Handle) -> Result<Entry<T>, AppendError>,
    ) -> Result<T, OpError> {
        let (mut session, mut handle) = (self.clone(), Handle::Own);
        let (mut backoff, mut conflicts) = (Backoff::new(), 0);
        loop {
            let error = match session.append_once(|state| decide(state, handle)).await.map_err(OpError::from) {
                Err(OpError::Contended) if conflicts < RETRIES => {
                    conflicts += 1;
                    match Self::open(&self.engine, self.id).await {
                        Ok(reopened) => (session, handle) = (reopened, Handle::Reopened),
                        Err(error) => {
                            self.wait(retry, &mut backoff, error).await?;
                        }
                    }
                    continue;
                }
                Err(error @ (OpError::Store(_) | OpError::Contended)) => error,
                done => return done,
            };
            self.wait(retry, &mut backoff, error).await?;
            conflicts = 0;
        }
    }

    /// Waits before the next attempt. Returns the error if there is none.
    async fn wait(&self, retry: Retry, backoff: &mut Backoff, error: OpError) -> Result<(), OpError> {
        if retry != Retry::Surely || !matches!(error, OpError::Store(_) | OpError::Contended) {
            return Err(error);
        }
        tracing::warn!(session = %self.id, error = &error as &dyn std::error::Error, "cannot record yet");
        backoff.wait(&self.engine).await.map_err(|_| error)
    }

    /// Decides and appends once. A conflict drops the cell.
    pub(super) async fn append_once<T>(
        &self,
        decide: impl FnOnce(&State) -> Result<Entry<T>, AppendError>,
    ) -> Result<T, AppendError> {
        let _appending = self.cell.appending.lock().await;
        let state = self.cell.state();
        let Entry { events, at, with, value } = decide(&state)?;
        if events.is_empty() {
            return Ok(value);
        }
        match self.append(&state, events, at, with).await {
            Ok(()) => Ok(value),
            Err(CommitError::Conflict { .. }) => {
                self.drop_stale();
                Err(AppendError::Stale)
            }
            Err(CommitError::UnknownSession) => Err(AppendError::Unknown { session: self.id }),
            Err(error) => Err(AppendError::Commit(error)),
        }
    }

    /// Drops the cell and its workspace handle, and starts to recover the session. No-op if the
    /// cell was dropped before.
    fn drop_stale(&self) {
        self.set_workspace(None);
        if !self.engine.drop_stale_cell(self.id, &self.cell) {
            return;
        }
        tracing::error!(session = %self.id, "something else wrote to the journal; the session is read again");
        recover::take_up_again(&self.engine, self.id);
    }

    /// Appends after the state's sequence number. Once that is durable, replaces the state.
    async fn append(
        &self,
        state: &State,
        events: Vec<Event>,
        at: Timestamp,
        with: Attached,
    ) -> Result<(), CommitError> {
        let other_starts: Vec<(AuditKind, String)> =
            events.iter().filter_map(audit::other_start).map(|(kind, reason)| (kind, reason.to_owned())).collect();
        let owner = events.iter().find_map(owner);
        let metadata_set = |event: &Event| matches!(event, Event::SessionUpdated { metadata: Some(_), .. });
        let terms_change = with.create || events.iter().any(metadata_set);
        let Folded { after, rows, audit } = self.fold(state, events, at);
        let Attached { create, admission, idempotency } = with;
        let commit = Commit {
            session: self.id,
            expected_seq: (!create).then_some(state.seq),
            create,
            at,
            events: rows.clone(),
            head: head(&after),
            owner,
            audit,
            admission,
            idempotency,
            terms: after.session.as_deref().filter(|_| terms_change).map(search_terms::of),
        };
        match self.engine.store().commit(commit).await {
            Ok(_) => {}
            // Only the journal can show if the events were written.
            Err(CommitError::Store(error @ StoreError::OutcomeUnknown { .. })) => {
                if !self.is_recorded(state.seq, &rows).await? {
                    return Err(error.into());
                }
            }
            Err(error) => return Err(error),
        }
        other_starts.iter().for_each(|(kind, reason)| audit::announce(self.id, *kind, reason));
        checkpoints::forget(&self.engine, self, state, &after);
        self.move_on(after, at);
        Ok(())
    }

    fn fold(&self, state: &State, events: Vec<Event>, at: Timestamp) -> Folded {
        let (mut after, mut audit) = (state.clone(), Vec::new());
        let mut rows = Vec::with_capacity(events.len());
        for (event, seq) in events.into_iter().zip(state.seq + 1..) {
            let row = NewEvent { kind: event.kind().to_owned(), payload: payload(&event) };
            self.cell.journal.add(&event, row.payload.len());
            rows.push(row);
            audit.extend(audit::entries(self.id, &event, at));
            fold(&mut after, &Recorded { seq, at, event });
        }
        Folded { after, rows: rows.into(), audit }
    }

    /// Makes a state with durable events the current state of the session.
    fn move_on(&self, after: State, at: Timestamp) {
        let (seq, session) = (after.seq, after.session.clone());
        *self.cell.lock_state() = after;
        if let Some(session) = &session {
            self.cell.times().get_or_insert_with(|| Times::of_new(session)).note(session, at);
        }
        if let (Some(session), Some(network)) = (&session, self.network()) {
            network.follow(session);
        }
        self.cell.seq.send_replace(seq);
        if !session.is_some_and(|session| session.live()) {
            self.set_workspace(None);
            self.engine.drop_cell(self.id);
        }
    }

    /// Returns true if exactly these events follow position `after` in the journal.
    async fn is_recorded(&self, after: u64, expected: &[NewEvent]) -> Result<bool, StoreError> {
        let count = u32::try_from(expected.len()).unwrap_or(u32::MAX);
        let found = self.engine.store().events(self.id, after, count).await?;
        let same = found.iter().zip(expected).all(|(found, expected)| found.payload == expected.payload);
        Ok(same && found.len() == expected.len())
    }
}

/// Events in the forms that a commit needs.
struct Folded {
    after: State,
    rows: Arc<[NewEvent]>,
    audit: Vec<AuditEntry>,
}

fn payload(event: &Event) -> String {
    // Events always serialise, because all their keys are strings. If one did not, the empty object
    // would be refused on reading, so the failure would not go unnoticed.
    serde_json::to_string(event).unwrap_or_else(|_| "{}".to_owned())
}

/// The user whose quota a new session counts against.
fn owner(event: &Event) -> Option<String> {
    match event {
        Event::SessionCreated { actor, .. } => admission::owner(actor).map(str::to_owned),
        _ => None,
    }
}

fn head(state: &State) -> Head {
    match &state.session {
        Some(session) => Head {
            status: session.status.to_string(),
            live: session.live(),
            holds_workspace: session.holds_place(),
            resources: Resources::reserved(session),
            agent_type: session.spec.agent_type.to_string(),
            project: session.spec.project.as_ref().map(ToString::to_string),
            due_at: session.due_at().map(|(at, _)| at),
            // For a live session the process has the state. Once it has ended, only this hash can
            // be compared with a replay.
            final_hash: (!session.live()).then(|| state.hash()),
        },
        None => Head {
            status: String::new(),
            live: false,
            holds_workspace: false,
            resources: Resources::default(),
            agent_type: String::new(),
            project: None,
            due_at: None,
            final_hash: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_the_store_does_not_know_is_named_in_the_error() {
        let session = stead_core::SessionId::from_bits(1);
        let error = OpError::from(AppendError::Unknown { session });
        assert_eq!(error.to_string(), format!("there is no session '{session}'"));
        // Control: any other refusal of the store is not about a missing session.
        assert!(matches!(OpError::from(AppendError::Commit(CommitError::Exists)), OpError::Contended));
    }
}
