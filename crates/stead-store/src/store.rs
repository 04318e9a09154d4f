//! Every operation of the store, in one place to read. Each is a line or two; the work is in the file of its noun.
//!
//! A write whose future is dropped may still happen: it was queued. Whoever needs to know reads again.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use stead_core::{SessionId, Timestamp};

use crate::audit::{self, AuditEntry, AuditQuery, AuditRow, RecordAudit};
use crate::backend::Backend;
use crate::blobs::{Blobs, StoredBlob};
use crate::chain::{Hash, StoredEvent};
use crate::commit::{Commit, CommitError, Committed};
use crate::content::{ContentPush, PushError};
use crate::database::Database;
use crate::document::{self, DeleteDocument, Document, DocumentKind, DocumentWrite, WriteError};
use crate::error::{OpenError, StoreError};
use crate::fence::Standing;
use crate::garbage;
use crate::idempotency::{self, ForgetBefore, IdempotencyKey, IdempotencyRow};
use crate::ledger::{self, Anchor, LedgerReport, PublicKey, Seal, Sealer, WriteSeal};
use crate::open;
use crate::own::{self, Ownership};
use crate::session::{self, SessionQuery, SessionRow};
use crate::setting::SettingOrInsert;
use crate::sql::values;
use crate::verify::{self, ChainVerdict};

/// Cheap to clone: all clones share the connections.
#[derive(Debug, Clone)]
pub struct Store {
    backend: Arc<Backend>,
    blobs: Blobs,
}

/// What is known of the ledger from outside the database.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The keys whose signatures are believed.
    pub keys: Vec<PublicKey>,
    /// The last seal that the home noted.
    pub anchor: Option<Anchor>,
    /// The hash of a seal that somebody kept elsewhere.
    pub kept: Option<Hash>,
}

impl Store {
    /// Opens or creates the database and the blob directory and brings the schema up to date. A database written by a newer
    /// version is refused ([`OpenError::NewerSchema`]) and left as it is.
    pub async fn open(database: &Database, blobs: &Path) -> Result<Store, OpenError> {
        let backend = Arc::new(open::backend(database).await?);
        let blobs = Blobs::at(blobs).await.map_err(|source| OpenError::Blobs { source })?;
        Ok(Store { backend, blobs })
    }

    /// Opens what is there without writing a byte, for a disk that cannot be written. Every write fails.
    pub async fn open_read_only(database: &Database, blobs: &Path) -> Result<Store, OpenError> {
        let backend = Arc::new(open::read_only(database).await?);
        Ok(Store { backend, blobs: Blobs::at_read_only(blobs) })
    }

    /// The right to work on this store, if no other server has it. `holder` names the home of this server: a server of
    /// the same home takes over at once, because the lock of the home proves that the last one is gone.
    pub async fn own(&self, holder: &str) -> Result<Option<Ownership>, StoreError> {
        own::own(&self.backend, holder).await
    }

    /// Gives the store up in order.
    pub async fn release(&self, ownership: Ownership) -> Result<(), StoreError> {
        let released = self.backend.write(own::Release).await;
        drop(ownership);
        released
    }

    /// Whether this process may write.
    pub fn standing(&self) -> Standing {
        self.backend.fence.standing()
    }

    /// Completes with the reason when this process has lost the store for good.
    pub async fn lost(&self) -> String {
        self.backend.fence.lost().await
    }

    /// Signs what was added to the ledger since the last seal; `None` if nothing was.
    pub async fn seal(&self, sealer: &Arc<Sealer>, at: Timestamp) -> Result<Option<Seal>, StoreError> {
        let seal = self.backend.write(WriteSeal { sealer: Arc::clone(sealer), at }).await?;
        if let Some(seal) = seal.clone() {
            let noting = Arc::clone(sealer);
            let noted = tokio::task::spawn_blocking(move || noting.note(&seal)).await;
            if let Ok(Err(error)) = noted {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot note the seal in the home");
            }
        }
        Ok(seal)
    }

    /// Compares every record with the ledger and the ledger with its seals, in one snapshot of the database.
    pub async fn verify_ledger(&self, evidence: &Evidence) -> Result<LedgerReport, StoreError> {
        let mut reader = self.backend.reader().await?;
        let mut conn = reader.conn();
        let begin = conn.either("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        conn.execute("begin a snapshot", begin, values![]).await?;
        let report = ledger::check(&mut conn, evidence).await;
        conn.execute("end a snapshot", "ROLLBACK", values![]).await?;
        report
    }

    /// Finishes what was handed in and closes the connections; later calls on any clone get [`StoreError::Closed`].
    pub async fn close(&self) {
        self.backend.close().await;
    }

    /// Appends events and writes everything that goes with them, all or nothing.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        self.backend.write(commit).await
    }

    /// The events after `after`, in order.
    pub async fn events(&self, session: SessionId, after: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        session::events(&mut self.backend.reader().await?.conn(), session, after, limit).await
    }

    pub async fn head(&self, session: SessionId) -> Result<Option<SessionRow>, StoreError> {
        session::head(&mut self.backend.reader().await?.conn(), session).await
    }

    /// Newest first: ids sort by creation.
    pub async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionRow>, StoreError> {
        session::list(&mut self.backend.reader().await?.conn(), &query).await
    }

    /// How many sessions there are in each status that any has.
    pub async fn session_counts(&self) -> Result<Vec<(String, u64)>, StoreError> {
        session::counts(&mut self.backend.reader().await?.conn()).await
    }

    /// Oldest first.
    pub async fn live_sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        session::live(&mut self.backend.reader().await?.conn()).await
    }

    /// Live sessions whose `due_at` is not after `now`, the most overdue first.
    pub async fn due_sessions(&self, now: Timestamp, limit: u32) -> Result<Vec<SessionRow>, StoreError> {
        session::due(&mut self.backend.reader().await?.conn(), now, limit).await
    }

    /// Checks the whole journal of a session against its hash chain; memory does not grow with its length.
    pub async fn verify(&self, session: SessionId) -> Result<ChainVerdict, StoreError> {
        verify::verify(&mut self.backend.reader().await?.conn(), session).await
    }

    pub async fn document(&self, kind: DocumentKind, id: &str) -> Result<Option<Document>, StoreError> {
        document::select(&mut self.backend.reader().await?.conn(), kind, id).await
    }

    /// Sorted by id, after the id `after`.
    pub async fn documents(
        &self,
        kind: DocumentKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Document>, StoreError> {
        document::list(&mut self.backend.reader().await?.conn(), kind, after, limit).await
    }

    pub async fn write_document(&self, write: DocumentWrite) -> Result<Document, WriteError> {
        self.backend.write(write).await
    }

    /// `false` if there was none; the audit rows are written only if there was one.
    pub async fn delete_document(
        &self,
        kind: DocumentKind,
        id: &str,
        audit: Vec<AuditEntry>,
    ) -> Result<bool, StoreError> {
        self.backend.write(DeleteDocument { kind, id: id.to_owned(), audit }).await
    }

    /// Adds a version of content; gives its number.
    pub async fn push_content(&self, push: ContentPush) -> Result<u64, PushError> {
        self.backend.write(push).await
    }

    pub async fn record_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        self.backend.write(RecordAudit(entries)).await
    }

    /// In the order of their ids.
    pub async fn audit(&self, query: AuditQuery) -> Result<Vec<AuditRow>, StoreError> {
        audit::select(&mut self.backend.reader().await?.conn(), &query).await
    }

    pub async fn idempotent(&self, key: &IdempotencyKey) -> Result<Option<IdempotencyRow>, StoreError> {
        idempotency::select(&mut self.backend.reader().await?.conn(), key).await
    }

    /// Returns how many keys were forgotten.
    pub async fn forget_idempotency_before(&self, at: Timestamp) -> Result<u64, StoreError> {
        self.backend.write(ForgetBefore(at)).await
    }

    /// The value that is there, or `value` if there was none; the same answer to everybody.
    pub async fn setting_or_insert(&self, key: &str, value: &str) -> Result<String, StoreError> {
        self.backend.write(SettingOrInsert { key: key.to_owned(), value: value.to_owned() }).await
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut reader = self.backend.reader().await?;
        let _: Option<(i64,)> =
            reader.conn().optional("ping", "SELECT COUNT(*) FROM settings WHERE key = ''", values![]).await?;
        Ok(())
    }

    /// Blobs that are older than `before` and that nothing in the store refers to, sorted. The caller owns the store
    /// ([`Store::own`]) until it has removed them: a reference made meanwhile would lead nowhere.
    pub async fn unreferenced_blobs(
        &self,
        _ownership: &Ownership,
        before: SystemTime,
    ) -> Result<Vec<StoredBlob>, StoreError> {
        garbage::unreferenced(&mut self.backend.reader().await?.conn(), &self.blobs, before).await
    }

    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }
}
