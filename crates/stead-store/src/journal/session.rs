//! The `sessions` row: the projection of a session's state for lists and the reconciler, and the
//! head of its chain.

use stead_core::{SessionId, Timestamp};

use crate::database::sql::{Conn, Select, values};
use crate::error::StoreError;
use crate::journal::chain::{Hash, StoredEvent};
use crate::journal::search::{Bounds, SearchTerm};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub id: SessionId,
    /// The number of the last event, 0 before the first.
    pub seq: u64,
    pub head_hash: Hash,
    pub status: String,
    pub live: bool,
    /// True if the session counts against the capacity for boxes.
    pub holds_workspace: bool,
    pub agent_type: String,
    pub project: Option<String>,
    pub due_at: Option<Timestamp>,
    /// The hash of the session's final state.
    pub final_hash: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// The last id of the previous page.
    pub after: Option<SessionId>,
    pub limit: u32,
    pub status: Option<String>,
    pub agent_type: Option<String>,
    pub project: Option<String>,
    /// Conditions on the session's terms, all of which must hold.
    pub terms: Vec<SearchTerm>,
}

/// The columns of [`Row`], for every `SELECT` of a whole row.
macro_rules! select_sessions {
    ($rest:literal) => {
        concat!(
            "SELECT id, seq, head_hash, status, live, holds_workspace, agent_type, project, due_at, final_hash, created_at, \
             updated_at FROM sessions ",
            $rest
        )
    };
}

pub(crate) async fn head(conn: &mut Conn<'_>, id: SessionId) -> Result<Option<SessionRow>, StoreError> {
    let row: Option<Row> = conn.optional("read a session", select_sessions!("WHERE id = $1"), values![id]).await?;
    row.map(Row::read).transpose()
}

/// Each filter has an index that also gives the order, so a page reads few rows that it does not
/// return. With terms, the first exact one leads: SQLite keeps the order of a `CROSS JOIN`.
pub(crate) async fn list(conn: &mut Conn<'_>, query: &SessionQuery) -> Result<Vec<SessionRow>, StoreError> {
    // '~' sorts after every id.
    let before = query.after.map_or("~".to_owned(), |id| id.to_string());
    let mut terms: Vec<Bounds> = query.terms.iter().map(SearchTerm::bounds).collect();
    terms.sort_by_key(|bounds| matches!(bounds, Bounds::Range(..)));
    let mut terms = terms.into_iter();
    let mut select = Select::new(
        "SELECT s.id, s.seq, s.head_hash, s.status, s.live, s.holds_workspace, s.agent_type, s.project, s.due_at, \
         s.final_hash, s.created_at, s.updated_at FROM ",
    );
    let order = match terms.next() {
        None => {
            select.with("sessions s WHERE s.id < ", before);
            " ORDER BY s.id DESC LIMIT "
        }
        Some(Bounds::Exact(term)) => {
            select.with("session_terms t CROSS JOIN sessions s WHERE s.id = t.session AND t.term = ", term);
            select.with(" AND t.session < ", before);
            " ORDER BY t.session DESC LIMIT "
        }
        Some(Bounds::Range(from, to)) => {
            select.with("(SELECT DISTINCT session FROM session_terms WHERE term >= ", from);
            select.with(" AND term < ", to).push(") t CROSS JOIN sessions s WHERE s.id = t.session");
            // Not `t.session`: SQLite would then read the terms by session instead of by term.
            select.with(" AND s.id < ", before);
            " ORDER BY s.id DESC LIMIT "
        }
    };
    for bounds in terms {
        select.push(" AND EXISTS (SELECT 1 FROM session_terms o WHERE o.session = s.id");
        match bounds {
            Bounds::Exact(term) => select.with(" AND o.term = ", term),
            Bounds::Range(from, to) => select.with(" AND o.term >= ", from).with(" AND o.term < ", to),
        };
        select.push(")");
    }
    let columns = [
        (" AND s.status = ", &query.status),
        (" AND s.agent_type = ", &query.agent_type),
        (" AND s.project = ", &query.project),
    ];
    for (text, value) in columns {
        if let Some(value) = value {
            select.with(text, value.clone());
        }
    }
    select.with(order, query.limit);
    read_all(conn.all_selected("list sessions", select).await?)
}

/// The live sessions of a project, oldest first.
pub(crate) async fn live_of(conn: &mut Conn<'_>, project: &str) -> Result<Vec<SessionRow>, StoreError> {
    let sql = select_sessions!("WHERE live = 1 AND project = $1 ORDER BY id");
    read_all(conn.all("list the live sessions of a project", sql, values![project]).await?)
}

/// The number of sessions in each status.
pub(crate) async fn counts(conn: &mut Conn<'_>) -> Result<Vec<(String, u64)>, StoreError> {
    let sql = "SELECT status, COUNT(*) FROM sessions GROUP BY status ORDER BY status";
    let rows: Vec<(String, i64)> = conn.all("count sessions", sql, values![]).await?;
    rows.into_iter().map(|(status, count)| Ok((status, read_seq(count)?))).collect()
}

pub(crate) async fn live(conn: &mut Conn<'_>) -> Result<Vec<SessionRow>, StoreError> {
    read_all(conn.all("list live sessions", select_sessions!("WHERE live = 1 ORDER BY id"), values![]).await?)
}

pub(crate) async fn due(conn: &mut Conn<'_>, now: Timestamp, limit: u32) -> Result<Vec<SessionRow>, StoreError> {
    read_all(
        conn.all(
            "list due sessions",
            select_sessions!("WHERE live = 1 AND due_at IS NOT NULL AND due_at <= $1 ORDER BY due_at, id LIMIT $2"),
            values![now, limit],
        )
        .await?,
    )
}

pub(crate) async fn events(
    conn: &mut Conn<'_>,
    id: SessionId,
    after: u64,
    limit: u32,
) -> Result<Vec<StoredEvent>, StoreError> {
    let rows: Vec<EventRow> = conn
        .all(
            "read a journal",
            "SELECT seq, at, kind, payload, prev_hash, hash FROM events \
             WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3",
            values![id, after, limit],
        )
        .await?;
    rows.into_iter().map(EventRow::read).collect()
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    seq: i64,
    head_hash: Vec<u8>,
    status: String,
    live: i64,
    holds_workspace: i64,
    agent_type: String,
    project: Option<String>,
    due_at: Option<i64>,
    final_hash: Option<String>,
    created_at: i64,
    updated_at: i64,
}

fn read_all(rows: Vec<Row>) -> Result<Vec<SessionRow>, StoreError> {
    rows.into_iter().map(Row::read).collect()
}

impl Row {
    fn read(self) -> Result<SessionRow, StoreError> {
        Ok(SessionRow {
            id: self.id.parse().map_err(|error: stead_core::id::InvalidId| StoreError::corrupt("session id", error))?,
            seq: read_seq(self.seq)?,
            head_hash: read_hash(&self.head_hash)?,
            status: self.status,
            live: self.live != 0,
            holds_workspace: self.holds_workspace != 0,
            agent_type: self.agent_type,
            project: self.project,
            due_at: self.due_at.map(Timestamp::from_millis),
            final_hash: self.final_hash,
            created_at: Timestamp::from_millis(self.created_at),
            updated_at: Timestamp::from_millis(self.updated_at),
        })
    }
}

#[derive(sqlx::FromRow)]
struct EventRow {
    seq: i64,
    at: i64,
    kind: String,
    payload: String,
    prev_hash: Vec<u8>,
    hash: Vec<u8>,
}

impl EventRow {
    fn read(self) -> Result<StoredEvent, StoreError> {
        Ok(StoredEvent {
            seq: read_seq(self.seq)?,
            at: Timestamp::from_millis(self.at),
            kind: self.kind,
            payload: self.payload,
            prev_hash: read_hash(&self.prev_hash)?,
            hash: read_hash(&self.hash)?,
        })
    }
}

pub(crate) fn read_seq(seq: i64) -> Result<u64, StoreError> {
    u64::try_from(seq).map_err(|error| StoreError::corrupt("sequence number", error))
}

pub(crate) fn read_hash(bytes: &[u8]) -> Result<Hash, StoreError> {
    Hash::try_from(bytes).map_err(|error| StoreError::corrupt("hash", error))
}
