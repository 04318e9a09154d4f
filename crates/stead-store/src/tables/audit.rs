//! Audit rows, which record allowed and refused actions. They are written in the transaction of
//! their change and never modified.
//!
//! The column `project` is derived and not part of the hashed record. It is the project of the
//! record's session, whose row the ledger covers, or the project that the body names, which is
//! hashed. `stead verify` derives it again and reports a row that differs (`ledger/check.rs`).

use stead_core::{SessionId, Timestamp, TokenId};

use crate::database::operation::Operation;
use crate::database::sql::{Conn, Select, values};
use crate::error::StoreError;
use crate::failpoints;
use crate::ledger::{self, Entry};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub kind: String,
    /// The actor, as the server names it.
    pub actor: String,
    /// The actor's token. `None` for tokens without an id, and in rows of earlier versions.
    pub token: Option<TokenId>,
    pub session: Option<SessionId>,
    /// JSON, opaque here.
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    pub id: i64,
    /// The project that the record is about.
    pub project: Option<String>,
    pub entry: AuditEntry,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    pub session: Option<SessionId>,
    pub kind: Option<String>,
    pub actor: Option<String>,
    pub token: Option<TokenId>,
    pub project: Option<String>,
    /// Only rows from this time on.
    pub from: Option<Timestamp>,
    /// Only rows before this time.
    pub to: Option<Timestamp>,
    /// The last id of the previous page, 0 for the first. On PostgreSQL two concurrent transactions
    /// may commit their rows in either order. A reader that follows the end of the log must
    /// therefore look back over the last few ids.
    pub after: i64,
    /// Only rows before this id.
    pub before: Option<i64>,
    pub order: AuditOrder,
    pub limit: u32,
}

/// The order of the rows. It also decides which rows are returned if there are more than the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AuditOrder {
    #[default]
    OldestFirst,
    NewestFirst,
}

/// The project that a body without a session names.
pub(crate) fn named_project(body: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    body.get("project")?.as_str().map(str::to_owned)
}

/// Writes rows in the transaction of the change they describe. Returns their ledger rows.
/// `project` is that of a session whose row may not exist yet.
pub(crate) async fn insert(
    conn: &mut Conn<'_>,
    entries: &[AuditEntry],
    project: Option<&str>,
) -> Result<Vec<Entry>, StoreError> {
    let mut written = Vec::with_capacity(entries.len());
    for entry in entries {
        failpoints::audit()?;
        let project = match entry.session {
            Some(_) => project.map(str::to_owned),
            None => named_project(&entry.body),
        };
        let row: Option<(i64,)> = conn
            .optional(
                "write the audit log",
                "INSERT INTO audit (at, kind, actor, session, body, token, project) VALUES ($1, $2, $3, $4, $5, $6, \
                 COALESCE($7, (SELECT s.project FROM sessions s WHERE s.id = $4))) RETURNING id",
                values![
                    entry.at,
                    entry.kind.clone(),
                    entry.actor.clone(),
                    entry.session.map(|id| id.to_string()),
                    entry.body.clone(),
                    entry.token.map(|id| id.to_string()),
                    project
                ],
            )
            .await?;
        let (id,) = row.ok_or_else(|| StoreError::corrupt("audit row", "an insert returned no row"))?;
        written.push(Entry::audit(id, entry));
    }
    Ok(written)
}

/// Audit rows without another change, such as those of refusals.
pub(crate) struct RecordAudit(pub(crate) Vec<AuditEntry>);

impl Operation for RecordAudit {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let written = insert(conn, &self.0, None).await?;
        ledger::append(conn, written).await
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    at: i64,
    kind: String,
    actor: String,
    session: Option<String>,
    body: String,
    project: Option<String>,
    token: Option<String>,
}

pub(crate) async fn select(conn: &mut Conn<'_>, query: &AuditQuery) -> Result<Vec<AuditRow>, StoreError> {
    let mut select = Select::new("SELECT id, at, kind, actor, session, body, project, token FROM audit");
    select.with(" WHERE id > ", query.after);
    if let Some(before) = query.before {
        select.with(" AND id < ", before);
    }
    let (session, token) = (query.session.map(|id| id.to_string()), query.token.map(|id| id.to_string()));
    let texts = [
        (" AND session = ", &session),
        (" AND kind = ", &query.kind),
        (" AND actor = ", &query.actor),
        (" AND token = ", &token),
        (" AND project = ", &query.project),
    ];
    for (text, value) in texts {
        if let Some(value) = value {
            select.with(text, value.clone());
        }
    }
    for (text, at) in [(" AND at >= ", query.from), (" AND at < ", query.to)] {
        if let Some(at) = at {
            select.with(text, at);
        }
    }
    if let Some(from) = query.from.filter(|_| query.after == 0) {
        // Ids grow with time, so a page need not read the rows before the first match. `+id` makes
        // SQLite find that row by its time.
        select.with(" AND id >= (SELECT COALESCE(MIN(+id), 0) FROM audit WHERE at >= ", from).push(")");
    }
    let order = match query.order {
        AuditOrder::OldestFirst => " ORDER BY id LIMIT ",
        AuditOrder::NewestFirst => " ORDER BY id DESC LIMIT ",
    };
    select.with(order, query.limit);
    let rows: Vec<Row> = conn.all_selected("read the audit log", select).await?;
    rows.into_iter().map(Row::read).collect()
}

impl Row {
    fn read(self) -> Result<AuditRow, StoreError> {
        let session = self.session.map(|id| id.parse()).transpose();
        let session = session.map_err(|error| StoreError::corrupt("session id", error))?;
        let token = self.token.map(|id| id.parse()).transpose();
        let token = token.map_err(|error| StoreError::corrupt("token id", error))?;
        let at = Timestamp::from_millis(self.at);
        let entry = AuditEntry { at, kind: self.kind, actor: self.actor, token, session, body: self.body };
        Ok(AuditRow { id: self.id, project: self.project, entry })
    }
}
