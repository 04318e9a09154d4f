//! The journal's only write: events, the session's projection, audit rows and the idempotency claim
//! in one transaction.
//!
//! Invariant: a [`Commit`] is written completely or not at all. The order inside is fixed, so that
//! concurrent commits on PostgreSQL take their locks in one order and cannot deadlock. It is key,
//! session row, its tool calls, sums (`reservations.rs`, then `usage_days.rs`), with inserts
//! between them that wait for nothing. A commit that creates a session takes the lock of the sums
//! before it inserts the session's row, which no other transaction can hold.

use std::sync::Arc;

use stead_core::admission::{QuotaExceeded, Resources};
use stead_core::{SessionId, Timestamp};

use crate::database::operation::{Failure, Operation};
use crate::database::sql::{Conn, Statement, Value, values};
use crate::error::StoreError;
use crate::journal::chain::{self, Hash};
use crate::journal::reservations::{self, Admission, Reservation};
use crate::journal::search::{self, Before, SessionTerms};
use crate::journal::session::{read_hash, read_seq};
use crate::journal::usage_days;
use crate::ledger::{self, Entry, SessionRecord};
use crate::tables::audit::{self, AuditEntry};
use crate::tables::idempotency::{self, ClaimError, IdempotencyKey, IdempotencyRow};

#[derive(Debug, Clone)]
pub struct Commit {
    pub session: SessionId,
    /// The head that the events were decided on. `None` appends at any head (outcomes of effects).
    /// Ignored if the commit creates the session.
    pub expected_seq: Option<u64>,
    /// If true the session must not exist yet, otherwise it must exist.
    pub create: bool,
    pub at: Timestamp,
    /// May be empty: then only the projection and the audit rows are written.
    pub events: Arc<[NewEvent]>,
    pub head: Head,
    /// The user whose quota the session counts against. Ignored unless the commit creates the
    /// session.
    pub owner: Option<String>,
    pub audit: Vec<AuditEntry>,
    /// Ignored unless the commit creates the session, or the session takes its place again.
    pub admission: Option<Admission>,
    pub idempotency: Option<IdempotencyClaim>,
    /// The terms by which the session is found. `None` if they do not change.
    pub terms: Option<SessionTerms>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    pub kind: String,
    /// JSON, opaque here, kept byte for byte.
    pub payload: String,
}

/// The projection of the session's state after the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub status: String,
    pub live: bool,
    /// True if the session has a workspace or will have one.
    pub holds_workspace: bool,
    /// The reserved amounts. They change only together with `live` or `holds_workspace`.
    pub resources: Resources,
    pub agent_type: String,
    pub project: Option<String>,
    pub due_at: Option<Timestamp>,
    /// The hash of the state, on the commit that ends the session.
    pub final_hash: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyClaim {
    pub key: IdempotencyKey,
    pub body_hash: Hash,
    pub target: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Without events, one more than `last_seq`.
    pub first_seq: u64,
    pub last_seq: u64,
    pub head_hash: Hash,
}

#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("the session moved on: expected sequence number {expected}, found {actual}")]
    Conflict { expected: u64, actual: u64 },
    #[error("{live} sessions with a workspace are live and at most {max} may be")]
    Full { live: u64, max: u64 },
    #[error(transparent)]
    Quota(QuotaExceeded),
    #[error("the session exists already")]
    Exists,
    #[error("there is no such session")]
    UnknownSession,
    /// The same key with the same body: `target` already exists.
    #[error("the idempotency key was used by the same request, which made {}", .0.target)]
    IdempotencyReplay(IdempotencyRow),
    #[error("the idempotency key was used by a different request, which made {}", .0.target)]
    IdempotencyMismatch(IdempotencyRow),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ClaimError> for CommitError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Replay(row) => Self::IdempotencyReplay(row),
            ClaimError::Mismatch(row) => Self::IdempotencyMismatch(row),
            ClaimError::Store(error) => Self::Store(error),
        }
    }
}

impl Failure for CommitError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

impl Operation for Commit {
    type Output = Committed;
    type Error = CommitError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<Committed, CommitError> {
        if let Some(claim) = &self.idempotency {
            idempotency::claim(conn, claim, self.at).await?;
        }
        let Locked { seq, prev, created_at, holding } = match self.create {
            true => self.admit(conn).await?,
            false => self.lock_head(conn).await?,
        };
        if !self.create {
            self.readmit(conn, holding).await?;
        }
        let links = self.links(seq, prev);
        let last_seq = seq + links.len() as u64;
        let head_hash = links.last().map_or(prev, |link| link.hash);
        let audited = audit::insert(conn, &self.audit, self.head.project.as_deref()).await?;
        let mut statements = Vec::with_capacity(2 + links.len() + audited.len());
        if self.create {
            self.insert_session(conn, last_seq, head_hash).await?;
        } else {
            statements.push(self.update_session(seq, last_seq, head_hash, created_at));
        }
        statements.extend(links.into_iter().map(|link| self.insert_event(link)));
        statements.push(ledger::insert(self.ledger_entry(last_seq, head_hash, created_at)));
        statements.extend(audited.into_iter().map(ledger::insert));
        statements.extend(usage_days::count_calls(self.session, &self.events, self.at));
        statements.extend(self.change_reservation(conn, holding).await?);
        let expected = statements.len() as u64;
        // Only the update can change no row, and it cannot while the lock is held. The sequence
        // number in its WHERE clause enforces the compare-and-set nevertheless.
        if conn.together("write to a journal", statements).await? != expected {
            return Err(CommitError::Conflict { expected: seq, actual: last_seq });
        }
        if let Some(terms) = &self.terms {
            let before = if self.create { Before::None } else { Before::Some };
            search::write(conn, self.session, terms, before).await?;
        }
        Ok(Committed { first_seq: seq + 1, last_seq, head_hash })
    }
}

/// The position of the journal's end, after the locks are taken.
struct Locked {
    seq: u64,
    prev: Hash,
    created_at: Timestamp,
    holding: Holding,
}

/// Fields of the session's row before the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Holding {
    live: bool,
    holds_workspace: bool,
}

/// An event with its position in the chain.
struct Link<'a> {
    event: &'a NewEvent,
    seq: u64,
    prev: Hash,
    hash: Hash,
}

impl Commit {
    fn links(&self, mut seq: u64, mut prev: Hash) -> Vec<Link<'_>> {
        let mut links = Vec::with_capacity(self.events.len());
        for event in self.events.iter() {
            seq += 1;
            let hash = chain::link(&prev, seq, self.at, &event.kind, &event.payload);
            links.push(Link { event, seq, prev, hash });
            prev = hash;
        }
        links
    }

    /// Admits a new session.
    async fn admit(&self, conn: &mut Conn<'_>) -> Result<Locked, CommitError> {
        if let Some(asked) = Reservation::after(self, None) {
            reservations::admit(conn, &asked, self.admission.as_ref()).await?;
        }
        let prev = chain::genesis(self.session);
        Ok(Locked { seq: 0, prev, created_at: self.at, holding: Holding::default() })
    }

    /// Admits a session that takes its place again, such as one that is resumed.
    async fn readmit(&self, conn: &mut Conn<'_>, holding: Holding) -> Result<(), CommitError> {
        let takes_place = self.head.holds_workspace && !holding.holds_workspace;
        let (true, Some(admission)) = (takes_place, &self.admission) else { return Ok(()) };
        let before = reservations::select(conn, self.session).await?;
        match (Reservation::after(self, before.as_ref()), before) {
            (Some(after), Some(before)) => reservations::admit(conn, &after.beyond(&before), Some(admission)).await,
            _ => Ok(()),
        }
    }

    /// The statements that change the session's reservation and count its use. There are none for
    /// most commits.
    async fn change_reservation(&self, conn: &mut Conn<'_>, holding: Holding) -> Result<Vec<Statement>, StoreError> {
        let Head { live, holds_workspace, .. } = self.head;
        let unchanged = holding.live == live && (!live || holding.holds_workspace == holds_workspace);
        if unchanged {
            return Ok(Vec::new());
        }
        let before = if holding.live { reservations::select(conn, self.session).await? } else { None };
        let after = Reservation::after(self, before.as_ref());
        let mut statements = reservations::change(self.session, before.as_ref(), after.as_ref());
        let created = after.as_ref().filter(|_| self.create);
        statements.extend(usage_days::change(before.as_ref(), created, self.at));
        if let (Some(held), None) = (&before, &after) {
            statements.extend(usage_days::move_calls(conn, self.session, held).await?);
        }
        Ok(statements)
    }

    /// Reads the head. On PostgreSQL, locks it until this transaction ends.
    ///
    /// The creation time comes from the first event, which the chain protects. The row's own value
    /// may have been edited, and the ledger would then confirm it.
    async fn lock_head(&self, conn: &mut Conn<'_>) -> Result<Locked, CommitError> {
        let sql = conn.either(
            "SELECT s.seq, s.head_hash, COALESCE(e.at, s.created_at), s.live, s.holds_workspace FROM sessions s \
             LEFT JOIN events e ON e.session = s.id AND e.seq = 1 WHERE s.id = $1",
            "SELECT s.seq, s.head_hash, COALESCE(e.at, s.created_at), s.live, s.holds_workspace FROM sessions s \
             LEFT JOIN events e ON e.session = s.id AND e.seq = 1 WHERE s.id = $1 FOR UPDATE OF s",
        );
        let row: Option<(i64, Vec<u8>, i64, i64, i64)> =
            conn.optional("read a session's head", sql, values![self.session]).await?;
        let (seq, hash, created_at, live, holds_workspace) = row.ok_or(CommitError::UnknownSession)?;
        let (actual, prev) = (read_seq(seq)?, read_hash(&hash)?);
        match self.expected_seq {
            Some(expected) if expected != actual => Err(CommitError::Conflict { expected, actual }),
            _ => Ok(Locked {
                seq: actual,
                prev,
                created_at: Timestamp::from_millis(created_at),
                holding: Holding { live: live != 0, holds_workspace: holds_workspace != 0 },
            }),
        }
    }

    async fn insert_session(&self, conn: &mut Conn<'_>, seq: u64, hash: Hash) -> Result<(), CommitError> {
        let inserted = conn
            .execute(
                "create a session",
                "INSERT INTO sessions \
                 (id, seq, head_hash, status, live, agent_type, project, due_at, final_hash, created_at, updated_at, \
                 holds_workspace) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11) ON CONFLICT (id) DO NOTHING",
                self.row(seq, hash),
            )
            .await?;
        if inserted == 1 { Ok(()) } else { Err(CommitError::Exists) }
    }

    fn update_session(&self, from: u64, to: u64, hash: Hash, created_at: Timestamp) -> Statement {
        let mut values = self.row(to, hash);
        values.extend(values![from, created_at]);
        Statement {
            sql: "UPDATE sessions SET seq = $2, head_hash = $3, status = $4, live = $5, agent_type = $6, project = $7, \
                  due_at = $8, final_hash = $9, updated_at = $10, holds_workspace = $11, \
                  created_at = $13 WHERE id = $1 AND seq = $12",
            values,
        }
    }

    /// The values of the session's row after the events, for `$1` to `$11`.
    fn row(&self, seq: u64, hash: Hash) -> Vec<Value> {
        let head = &self.head;
        values![
            self.session,
            seq,
            hash,
            head.status.clone(),
            head.live,
            head.agent_type.clone(),
            head.project.clone(),
            head.due_at.map(Timestamp::millis),
            head.final_hash.clone(),
            self.at,
            head.holds_workspace
        ]
    }

    fn ledger_entry(&self, seq: u64, head_hash: Hash, created_at: Timestamp) -> Entry {
        let head = &self.head;
        Entry::session(&SessionRecord {
            id: &self.session.to_string(),
            seq: i64::try_from(seq).unwrap_or(i64::MAX),
            head_hash,
            status: &head.status,
            live: i64::from(head.live),
            holds_workspace: i64::from(head.holds_workspace),
            agent_type: &head.agent_type,
            project: head.project.as_deref(),
            due_at: head.due_at.map(Timestamp::millis),
            final_hash: head.final_hash.as_deref(),
            created_at: created_at.millis(),
            updated_at: self.at.millis(),
        })
    }

    fn insert_event(&self, link: Link<'_>) -> Statement {
        let Link { event, seq, prev, hash } = link;
        Statement {
            sql: "INSERT INTO events (session, seq, at, kind, payload, prev_hash, hash) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7)",
            values: values![self.session, seq, self.at, event.kind.clone(), event.payload.clone(), prev, hash],
        }
    }
}
