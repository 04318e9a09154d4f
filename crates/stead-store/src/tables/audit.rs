//! Audit rows, which record allowed and refused actions. They are written in the transaction of
//! their change and never modified.

use stead_core::{SessionId, Timestamp};

use crate::database::operation::Operation;
use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::failpoints;
use crate::ledger::{self, Entry};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub kind: String,
    /// The actor, as the server names it.
    pub actor: String,
    pub session: Option<SessionId>,
    /// JSON, opaque here.
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    pub id: i64,
    pub entry: AuditEntry,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    pub session: Option<SessionId>,
    pub kind: Option<String>,
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

/// Writes rows in the transaction of the change they describe. Returns their ledger rows.
pub(crate) async fn insert(conn: &mut Conn<'_>, entries: &[AuditEntry]) -> Result<Vec<Entry>, StoreError> {
    let mut written = Vec::with_capacity(entries.len());
    for entry in entries {
        failpoints::audit()?;
        let row: Option<(i64,)> = conn
            .optional(
                "write the audit log",
                "INSERT INTO audit (at, kind, actor, session, body) VALUES ($1, $2, $3, $4, $5) RETURNING id",
                values![
                    entry.at,
                    entry.kind.clone(),
                    entry.actor.clone(),
                    entry.session.map(|id| id.to_string()),
                    entry.body.clone()
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
        let written = insert(conn, &self.0).await?;
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
}

pub(crate) async fn select(conn: &mut Conn<'_>, query: &AuditQuery) -> Result<Vec<AuditRow>, StoreError> {
    let statement = match query.order {
        AuditOrder::OldestFirst => {
            "SELECT id, at, kind, actor, session, body FROM audit \
             WHERE id > $1 AND ($2 IS NULL OR session = $2) AND ($3 IS NULL OR kind = $3) AND id < $4 ORDER BY id LIMIT $5"
        }
        AuditOrder::NewestFirst => {
            "SELECT id, at, kind, actor, session, body FROM audit \
             WHERE id > $1 AND ($2 IS NULL OR session = $2) AND ($3 IS NULL OR kind = $3) AND id < $4 ORDER BY id DESC LIMIT $5"
        }
    };
    let session = query.session.map(|id| id.to_string());
    let before = query.before.unwrap_or(i64::MAX);
    let given = values![query.after, session, query.kind.clone(), before, query.limit];
    let rows: Vec<Row> = conn.all("read the audit log", statement, given).await?;
    rows.into_iter().map(Row::read).collect()
}

impl Row {
    fn read(self) -> Result<AuditRow, StoreError> {
        let session = self.session.map(|id| id.parse()).transpose();
        let session = session.map_err(|error| StoreError::corrupt("session id", error))?;
        let at = Timestamp::from_millis(self.at);
        let entry = AuditEntry { at, kind: self.kind, actor: self.actor, session, body: self.body };
        Ok(AuditRow { id: self.id, entry })
    }
}
