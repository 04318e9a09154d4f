//! Adds a version of content: updates the head and creates the version in one transaction.
//!
//! The revision of the head's document *is* the version number, and a revision is never used twice.
//! The version's own document is only ever created, so a version never changes.

use stead_core::Timestamp;

use crate::database::operation::{Failure, Operation};
use crate::database::sql::Conn;
use crate::error::StoreError;
use crate::journal::commit::IdempotencyClaim;
use crate::tables::audit::AuditEntry;
use crate::tables::document::{Document, DocumentKind, DocumentWrite, WriteError, WriteMode};
use crate::tables::idempotency::{self, IdempotencyRow};

#[derive(Debug, Clone)]
pub struct ContentPush {
    pub name: String,
    /// JSON, kept byte for byte, the same for the head and the version.
    pub body: String,
    /// Refuse unless this is the newest version. 0 means that there must be none.
    pub expected_head: Option<u64>,
    pub at: Timestamp,
    pub audit: Vec<AuditEntry>,
    /// Claimed in the same transaction, with the version as its target.
    pub idempotency: Option<IdempotencyClaim>,
}

#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error("workspace head mismatch: expected version {expected}, the newest is {actual}")]
    HeadMismatch { expected: u64, actual: u64 },
    #[error("the idempotency key was used by the same request, which made {}", .0.target)]
    IdempotencyReplay(IdempotencyRow),
    #[error("the idempotency key was used by a different request, which made {}", .0.target)]
    IdempotencyMismatch(IdempotencyRow),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Failure for PushError {
    fn store_error(&self) -> Option<&StoreError> {
        match self {
            Self::Store(error) => Some(error),
            _ => None,
        }
    }
}

/// The id of a version's document. It sorts like the version numbers.
pub fn version_id(name: &str, version: u64) -> String {
    format!("{name}@{version:012}")
}

impl Operation for ContentPush {
    type Output = u64;
    type Error = PushError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<u64, PushError> {
        let head = self.write(DocumentKind::Content, self.name.clone(), WriteMode::CreateOrReplace, self.audit.clone());
        let Document { revision, .. } = head.run(conn).await.map_err(unexpected)?;
        let version = u64::try_from(revision).map_err(|error| StoreError::corrupt("document", error))?;
        if let Some(expected) = self.expected_head.filter(|expected| expected + 1 != version) {
            return Err(PushError::HeadMismatch { expected, actual: version - 1 });
        }
        let id = version_id(&self.name, version);
        let made = self.write(DocumentKind::ContentVersion, id, WriteMode::Create, Vec::new());
        made.run(conn).await.map_err(unexpected)?;
        if let Some(claim) = &self.idempotency {
            let claim = IdempotencyClaim { target: version.to_string(), ..claim.clone() };
            idempotency::claim(conn, &claim, self.at).await.map_err(|error| match error {
                idempotency::ClaimError::Replay(row) => PushError::IdempotencyReplay(row),
                idempotency::ClaimError::Mismatch(row) => PushError::IdempotencyMismatch(row),
                idempotency::ClaimError::Store(error) => PushError::Store(error),
            })?;
        }
        Ok(version)
    }
}

impl ContentPush {
    fn write(&self, kind: DocumentKind, id: String, mode: WriteMode, audit: Vec<AuditEntry>) -> DocumentWrite {
        let (body, at) = (self.body.clone(), self.at);
        DocumentWrite { kind, id, body, mode, expected_revision: None, at, audit, idempotency: None }
    }
}

/// These writes have no condition that could fail, so any other error means corrupt data.
fn unexpected(error: WriteError) -> StoreError {
    match error {
        WriteError::Store(error) => error,
        other => StoreError::corrupt("document", other),
    }
}
