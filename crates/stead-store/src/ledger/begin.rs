//! The first rows of a ledger: one for every existing record of the database.

use stead_core::{AuditKind, Timestamp};

use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::journal::session::read_hash;
use crate::ledger::SessionRecord;
use crate::ledger::check::AcceptedCut;
use crate::ledger::entry::{AuditRecord, DocumentRecord, Entry, EntryKind, append};

const PAGE: i64 = 500;

/// Writes the first rows. No-op if the ledger has begun. The caller owns the store, so no other
/// writer runs meanwhile.
pub(crate) async fn begin(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    if !has_row(conn, EntryKind::Begin).await? {
        append(conn, vec![Entry::begin()]).await?;
        sessions(conn).await?;
        audit(conn).await?;
        documents(conn).await?;
        let settings: Vec<(String, String)> =
            conn.all("read the settings", "SELECT key, value FROM settings ORDER BY key", values![]).await?;
        append(conn, settings.iter().map(|(key, value)| Entry::setting(key, value)).collect()).await?;
    }
    // Ledgers of earlier versions do not cover the references to blobs.
    if !has_row(conn, EntryKind::BeginBlobs).await? {
        append(conn, vec![Entry::begin_blobs()]).await?;
        references(conn).await?;
    }
    Ok(())
}

async fn has_row(conn: &mut Conn<'_>, kind: EntryKind) -> Result<bool, StoreError> {
    let sql = "SELECT seq FROM ledger WHERE kind = $1 ORDER BY seq LIMIT 1";
    let row: Option<(i64,)> = conn.optional("read the ledger", sql, values![kind.as_str()]).await?;
    Ok(row.is_some())
}

#[derive(sqlx::FromRow)]
pub(super) struct SessionFields {
    pub(super) id: String,
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

impl SessionFields {
    pub(super) fn entry(&self) -> Result<Entry, StoreError> {
        Ok(Entry::session(&SessionRecord {
            id: &self.id,
            seq: self.seq,
            head_hash: read_hash(&self.head_hash)?,
            status: &self.status,
            live: self.live,
            holds_workspace: self.holds_workspace,
            agent_type: &self.agent_type,
            project: self.project.as_deref(),
            due_at: self.due_at,
            final_hash: self.final_hash.as_deref(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }))
    }
}

macro_rules! select_sessions {
    ($rest:literal) => {
        concat!(
            "SELECT id, seq, head_hash, status, live, holds_workspace, agent_type, project, due_at, final_hash, ",
            "created_at, updated_at FROM sessions ",
            $rest
        )
    };
}

/// The rows after an id. The first page has no lower bound, because any text may be an id here.
pub(super) async fn session_page(conn: &mut Conn<'_>, after: Option<&str>) -> Result<Vec<SessionFields>, StoreError> {
    let doing = "read the sessions";
    match after {
        None => conn.all(doing, select_sessions!("ORDER BY id LIMIT $1"), values![PAGE]).await,
        Some(id) => conn.all(doing, select_sessions!("WHERE id > $1 ORDER BY id LIMIT $2"), values![id, PAGE]).await,
    }
}

async fn sessions(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    let mut after: Option<String> = None;
    loop {
        let page = session_page(conn, after.as_deref()).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.id.clone());
        let entries = page.iter().map(SessionFields::entry).collect::<Result<_, _>>()?;
        append(conn, entries).await?;
    }
}

/// Says if the table `audit` has the column `token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenColumn {
    Present,
    /// A read-only database may be older, and it is not migrated.
    Absent,
}

#[derive(sqlx::FromRow)]
pub(super) struct AuditFields {
    pub(super) id: i64,
    at: i64,
    kind: String,
    actor: String,
    session: Option<String>,
    body: String,
    token: Option<String>,
}

impl AuditFields {
    pub(super) fn entry(&self) -> Entry {
        Entry::audit_row(&AuditRecord {
            id: self.id,
            at: self.at,
            kind: &self.kind,
            actor: &self.actor,
            session: self.session.as_deref(),
            body: &self.body,
            token: self.token.as_deref(),
        })
    }

    pub(super) fn accepted_cut(self) -> Option<AcceptedCut> {
        let accepted = self.kind == AuditKind::DatabaseAccepted.as_str();
        accepted.then(|| AcceptedCut { at: Timestamp::from_millis(self.at), body: self.body })
    }
}

pub(super) async fn audit_page(
    conn: &mut Conn<'_>,
    column: TokenColumn,
    from: i64,
) -> Result<Vec<AuditFields>, StoreError> {
    let sql = match column {
        TokenColumn::Present => {
            "SELECT id, at, kind, actor, session, body, token FROM audit WHERE id >= $1 ORDER BY id LIMIT $2"
        }
        TokenColumn::Absent => {
            "SELECT id, at, kind, actor, session, body, CAST(NULL AS TEXT) AS token FROM audit \
             WHERE id >= $1 ORDER BY id LIMIT $2"
        }
    };
    conn.all("read the audit log", sql, values![from, PAGE]).await
}

async fn audit(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    let mut next = Some(i64::MIN);
    while let Some(from) = next {
        // The owner has migrated the database.
        let page = audit_page(conn, TokenColumn::Present, from).await?;
        next = page.last().and_then(|last| last.id.checked_add(1));
        append(conn, page.iter().map(AuditFields::entry).collect()).await?;
    }
    Ok(())
}

#[derive(sqlx::FromRow)]
pub(super) struct DocumentFields {
    pub(super) kind: String,
    pub(super) id: String,
    revision: i64,
    deleted: i64,
    pub(super) body: String,
    created_at: i64,
    updated_at: i64,
}

impl DocumentFields {
    pub(super) fn entry(&self) -> Entry {
        Entry::document(&DocumentRecord {
            kind: &self.kind,
            id: &self.id,
            revision: self.revision,
            deleted: self.deleted,
            body: &self.body,
            created_at: self.created_at,
            updated_at: self.updated_at,
        })
    }
}

macro_rules! select_documents {
    ($rest:literal) => {
        concat!("SELECT kind, id, revision, deleted, body, created_at, updated_at FROM documents ", $rest)
    };
}

/// The rows after a kind and an id. The first page has no lower bound.
pub(super) async fn document_page(
    conn: &mut Conn<'_>,
    after: Option<(&str, &str)>,
) -> Result<Vec<DocumentFields>, StoreError> {
    let doing = "read the documents";
    match after {
        None => conn.all(doing, select_documents!("ORDER BY kind, id LIMIT $1"), values![PAGE]).await,
        Some((kind, id)) => {
            let sql = select_documents!("WHERE kind > $1 OR (kind = $1 AND id > $2) ORDER BY kind, id LIMIT $3");
            conn.all(doing, sql, values![kind, id, PAGE]).await
        }
    }
}

async fn documents(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    let mut after: Option<(String, String)> = None;
    loop {
        let page = document_page(conn, after.as_ref().map(|(kind, id)| (kind.as_str(), id.as_str()))).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.kind.clone(), last.id.clone()));
        append(conn, page.iter().map(DocumentFields::entry).collect()).await?;
    }
}

#[derive(sqlx::FromRow)]
pub(super) struct ReferenceFields {
    pub(super) holder: String,
    pub(super) digest: String,
    bytes: i64,
}

impl ReferenceFields {
    pub(super) fn entry(&self) -> Entry {
        Entry::blob(&self.holder, &self.digest, self.bytes)
    }
}

/// The rows after a holder and a hash. The first page has no lower bound.
pub(super) async fn reference_page(
    conn: &mut Conn<'_>,
    after: Option<(&str, &str)>,
) -> Result<Vec<ReferenceFields>, StoreError> {
    let doing = "read the references to blobs";
    let Some((holder, digest)) = after else {
        let sql = "SELECT holder, digest, bytes FROM blob_references ORDER BY holder, digest LIMIT $1";
        return conn.all(doing, sql, values![PAGE]).await;
    };
    let sql = "SELECT holder, digest, bytes FROM blob_references \
               WHERE holder > $1 OR (holder = $1 AND digest > $2) ORDER BY holder, digest LIMIT $3";
    conn.all(doing, sql, values![holder, digest, PAGE]).await
}

async fn references(conn: &mut Conn<'_>) -> Result<(), StoreError> {
    let mut after: Option<(String, String)> = None;
    loop {
        let page =
            reference_page(conn, after.as_ref().map(|(holder, digest)| (holder.as_str(), digest.as_str()))).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some((last.holder.clone(), last.digest.clone()));
        append(conn, page.iter().map(ReferenceFields::entry).collect()).await?;
    }
}
