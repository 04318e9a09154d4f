//! Registry documents, such as agent types and projects, as JSON with an increasing revision.
//!
//! Invariant: a revision is never used twice for the same id, not even after a deletion. A matching
//! `expected_revision` therefore proves that nothing changed. A deleted document keeps an empty row
//! for this reason.

use stead_core::identity::Tenant;
use stead_core::{Name, Timestamp};

use crate::database::operation::{Failure, Operation};
use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::journal::commit::IdempotencyClaim;
use crate::ledger::{self, DocumentRecord, Entry};
use crate::tables::audit::{self, AuditEntry};
use crate::tables::idempotency::{self, ClaimError, IdempotencyRow};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DocumentKind {
    Platform,
    Project,
    AgentType,
    Content,
    ContentVersion,
    Token,
    /// A global digest.
    Digest,
    /// The quotas of a project.
    Quota,
    /// A project that is being deleted.
    ProjectDeletion,
    /// A secret with its sealed value.
    Secret,
    /// The sealed private key with which the server inspects the connections of a workspace.
    InspectionKey,
}

impl DocumentKind {
    pub const ALL: [Self; 11] = [
        Self::Platform,
        Self::Project,
        Self::AgentType,
        Self::Content,
        Self::ContentVersion,
        Self::Token,
        Self::Digest,
        Self::Quota,
        Self::ProjectDeletion,
        Self::Secret,
        Self::InspectionKey,
    ];

    /// The name in the database. Never change one.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Project => "project",
            Self::AgentType => "agent_type",
            Self::Content => "content",
            Self::ContentVersion => "content_version",
            Self::Token => "token",
            Self::Digest => "digest",
            Self::Quota => "quota",
            Self::ProjectDeletion => "project_deletion",
            Self::Secret => "secret",
            Self::InspectionKey => "inspection_key",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub kind: DocumentKind,
    pub id: String,
    pub revision: i64,
    /// JSON, opaque here, kept byte for byte.
    pub body: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    Create,
    Replace,
    CreateOrReplace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentWrite {
    pub kind: DocumentKind,
    pub id: String,
    pub body: String,
    pub mode: WriteMode,
    /// Refuse unless the document has this revision.
    pub expected_revision: Option<i64>,
    pub at: Timestamp,
    pub audit: Vec<AuditEntry>,
    /// Claimed in the same transaction.
    pub idempotency: Option<IdempotencyClaim>,
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The same key with the same body: the document was already written.
    #[error("the idempotency key was used by the same request, which made {}", .0.target)]
    IdempotencyReplay(IdempotencyRow),
    #[error("the idempotency key was used by a different request, which made {}", .0.target)]
    IdempotencyMismatch(IdempotencyRow),
    #[error("the document exists already, at revision {revision}")]
    Exists { revision: i64 },
    #[error("there is no such document")]
    Missing,
    /// `actual` is `None` if there is no document.
    #[error("the document changed: it is not at revision {expected} any more")]
    Stale { expected: i64, actual: Option<i64> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ClaimError> for WriteError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Replay(row) => Self::IdempotencyReplay(row),
            ClaimError::Mismatch(row) => Self::IdempotencyMismatch(row),
            ClaimError::Store(error) => Self::Store(error),
        }
    }
}

impl Failure for WriteError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    revision: i64,
    body: String,
    created_at: i64,
    updated_at: i64,
}

impl Row {
    fn read(self, kind: DocumentKind) -> Document {
        Document {
            kind,
            id: self.id,
            revision: self.revision,
            body: self.body,
            created_at: Timestamp::from_millis(self.created_at),
            updated_at: Timestamp::from_millis(self.updated_at),
        }
    }
}

pub(crate) async fn select(conn: &mut Conn<'_>, kind: DocumentKind, id: &str) -> Result<Option<Document>, StoreError> {
    let row: Option<Row> = conn
        .optional(
            "read a document",
            "SELECT id, revision, body, created_at, updated_at FROM documents \
             WHERE kind = $1 AND id = $2 AND deleted = 0",
            values![kind.as_str(), id],
        )
        .await?;
    Ok(row.map(|row| row.read(kind)))
}

/// Documents of one tenant: those whose ids begin with `project/`, or those without a `/`.
pub(crate) async fn list_of(
    conn: &mut Conn<'_>,
    kind: DocumentKind,
    tenant: &Tenant,
    after: Option<&Name>,
    limit: u32,
) -> Result<Vec<Document>, StoreError> {
    let after = after.map_or("", Name::as_str);
    let (first, sql, end) = match tenant {
        // '0' is the character after '/'.
        Tenant::Project(project) => (
            format!("{project}/{after}"),
            "SELECT id, revision, body, created_at, updated_at FROM documents \
             WHERE kind = $1 AND id > $2 AND id < $4 AND deleted = 0 ORDER BY id LIMIT $3",
            format!("{project}0"),
        ),
        Tenant::Platform => (
            after.to_owned(),
            "SELECT id, revision, body, created_at, updated_at FROM documents \
             WHERE kind = $1 AND id > $2 AND id NOT LIKE $4 AND deleted = 0 ORDER BY id LIMIT $3",
            "%/%".to_owned(),
        ),
    };
    let rows: Vec<Row> = conn.all("list documents", sql, values![kind.as_str(), first, limit, end]).await?;
    Ok(rows.into_iter().map(|row| row.read(kind)).collect())
}

pub(crate) async fn list(
    conn: &mut Conn<'_>,
    kind: DocumentKind,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<Document>, StoreError> {
    let rows: Vec<Row> = conn
        .all(
            "list documents",
            "SELECT id, revision, body, created_at, updated_at FROM documents \
             WHERE kind = $1 AND id > $2 AND deleted = 0 ORDER BY id LIMIT $3",
            // No id is empty, so the empty text sorts before all of them.
            values![kind.as_str(), after.unwrap_or(""), limit],
        )
        .await?;
    Ok(rows.into_iter().map(|row| row.read(kind)).collect())
}

impl Operation for DocumentWrite {
    type Output = Document;
    type Error = WriteError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<Document, WriteError> {
        if let Some(claim) = &self.idempotency {
            idempotency::claim(conn, claim, self.at).await?;
        }
        let stored = self.reserve(conn).await?;
        let present = (!stored.deleted).then_some(stored.revision);
        match (self.mode, present) {
            (WriteMode::Create, Some(revision)) => return Err(WriteError::Exists { revision }),
            (WriteMode::Replace, None) => return Err(WriteError::Missing),
            _ => {}
        }
        if let Some(expected) = self.expected_revision
            && present != Some(expected)
        {
            return Err(WriteError::Stale { expected, actual: present });
        }
        let created_at = if stored.deleted { self.at } else { stored.created_at };
        let document = Document {
            kind: self.kind,
            id: self.id.clone(),
            revision: stored.revision + 1,
            body: self.body.clone(),
            created_at,
            updated_at: self.at,
        };
        conn.execute(
            "write a document",
            "UPDATE documents SET revision = $3, deleted = 0, body = $4, created_at = $5, updated_at = $6 \
             WHERE kind = $1 AND id = $2",
            values![self.kind.as_str(), self.id.clone(), document.revision, self.body.clone(), created_at, self.at],
        )
        .await?;
        let mut entries = vec![Entry::document(&DocumentRecord {
            kind: self.kind.as_str(),
            id: &self.id,
            revision: document.revision,
            deleted: 0,
            body: &self.body,
            created_at: created_at.millis(),
            updated_at: self.at.millis(),
        })];
        entries.extend(audit::insert(conn, &self.audit, None).await?);
        ledger::append(conn, entries).await?;
        Ok(document)
    }
}

/// The state of a row, deleted or not.
struct Reserved {
    revision: i64,
    deleted: bool,
    created_at: Timestamp,
}

impl DocumentWrite {
    /// Ensures that there is a row, deleted at revision 0 if it is new, and locks it. From here on
    /// no other write to it can run.
    async fn reserve(&self, conn: &mut Conn<'_>) -> Result<Reserved, StoreError> {
        let row: Option<(i64, i64, i64)> = conn
            .optional(
                "reserve a document",
                "INSERT INTO documents (kind, id, revision, deleted, body, created_at, updated_at) \
                 VALUES ($1, $2, 0, 1, '', $3, $3) \
                 ON CONFLICT (kind, id) DO UPDATE SET revision = documents.revision \
                 RETURNING revision, deleted, created_at",
                values![self.kind.as_str(), self.id.clone(), self.at],
            )
            .await?;
        let (revision, deleted, created_at) =
            row.ok_or_else(|| StoreError::corrupt("document", "an upsert returned no row"))?;
        Ok(Reserved { revision, deleted: deleted != 0, created_at: Timestamp::from_millis(created_at) })
    }
}

pub(crate) struct DeleteDocument {
    pub(crate) kind: DocumentKind,
    pub(crate) id: String,
    pub(crate) audit: Vec<AuditEntry>,
}

impl Operation for DeleteDocument {
    type Output = bool;
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<bool, StoreError> {
        let row: Option<(i64, i64, i64)> = conn
            .optional(
                "delete a document",
                "UPDATE documents SET deleted = 1, body = '', revision = revision + 1 \
                 WHERE kind = $1 AND id = $2 AND deleted = 0 RETURNING revision, created_at, updated_at",
                values![self.kind.as_str(), self.id.clone()],
            )
            .await?;
        let Some((revision, created_at, updated_at)) = row else { return Ok(false) };
        let (kind, id) = (self.kind.as_str(), self.id.as_str());
        let record = DocumentRecord { kind, id, revision, deleted: 1, body: "", created_at, updated_at };
        let mut entries = vec![Entry::document(&record)];
        entries.extend(audit::insert(conn, &self.audit, None).await?);
        ledger::append(conn, entries).await?;
        Ok(true)
    }
}
