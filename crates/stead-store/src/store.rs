//! All operations of the store. The implementations are in the modules of their subjects.
//!
//! A write whose future is dropped may still happen, because it was queued. Read again to find out.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use stead_core::admission::{Allowed, Amounts};
use stead_core::identity::Tenant;
use stead_core::{ContentHash, Name, SessionId, Timestamp, TokenId};
use tokio::sync::{Mutex, OnceCell};

use crate::blobs::garbage::{self, ReferIfUnchanged};
use crate::blobs::references::{self, Age, Cause, Holder, References, Referring};
use crate::blobs::{BlobError, Blobs, StoredBlob, Upload};
use crate::database::Database;
use crate::database::backend::{Accesses, Backend};
use crate::database::fence::Standing;
use crate::database::open;
use crate::database::operation::Operation;
use crate::database::ownership::{self, Ownership};
use crate::database::sql::values;
use crate::error::{OpenError, StoreError};
use crate::failpoints;
use crate::journal::chain::{Hash, StoredEvent};
use crate::journal::commit::{Commit, CommitError, Committed};
use crate::journal::reservations;
use crate::journal::search::{SessionTerms, WriteTerms};
use crate::journal::session::{self, SessionQuery, SessionRow};
use crate::journal::usage_days::{self, UsageQuery, UsageRow};
use crate::journal::verify::{self, ChainVerdict};
use crate::ledger::{self, Anchor, Continuity, LedgerReport, PublicKey, Seal, Sealer, WriteSeal};
use crate::tables::audit::{self, AuditEntry, AuditQuery, AuditRow, RecordAudit};
use crate::tables::content::{ContentPush, PushError};
use crate::tables::document::{self, DeleteDocument, Document, DocumentKind, DocumentWrite, WriteError};
use crate::tables::idempotency::{self, ForgetBefore, IdempotencyKey, IdempotencyRow};
use crate::tables::project_storage::{
    self, AddStorage, RemoveStorage, RemoveStorageOf, ReplaceStorage, StorageError, StorageKind, StoredItem,
};
use crate::tables::setting::SettingOrInsert;
use crate::tables::token_use::{self, RecordTokenUses};

/// A handle to the database and the blobs. All clones share the connections.
#[derive(Debug, Clone)]
pub struct Store {
    backend: Arc<Backend>,
    blobs: Blobs,
    /// Set after the references to blobs were compared with events and documents.
    references_restored: Arc<OnceCell<()>>,
    /// Held while an upload is recorded, and while blobs are removed together with their records.
    uploads: Arc<Mutex<()>>,
}

/// Number of blobs that are removed before their uploads are forgotten.
const REMOVED_TOGETHER: usize = 100;

/// Facts about the ledger that are kept outside the database.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// The trusted keys for signatures.
    pub keys: Vec<PublicKey>,
    /// The last seal that the home directory records.
    pub anchor: Option<Anchor>,
    /// The hash of a seal that the operator stored elsewhere and passed in.
    pub kept: Option<Hash>,
}

impl Store {
    /// Opens or creates the database and the blob directory, and migrates the schema. A database of
    /// a newer version is refused ([`OpenError::NewerSchema`]) and not changed.
    pub async fn open(database: &Database, blobs: &Path) -> Result<Store, OpenError> {
        let backend = Arc::new(open::backend(database).await?);
        let blobs = Blobs::at(blobs).await.map_err(|source| OpenError::Blobs { source })?;
        Ok(Store { backend, blobs, references_restored: Arc::default(), uploads: Arc::default() })
    }

    /// Opens an existing store without writing, for a read-only disk. Every write fails.
    pub async fn open_read_only(database: &Database, blobs: &Path) -> Result<Store, OpenError> {
        let backend = Arc::new(open::read_only(database).await?);
        let blobs = Blobs::at_read_only(blobs);
        Ok(Store { backend, blobs, references_restored: Arc::default(), uploads: Arc::default() })
    }

    /// Takes ownership of the store. `None` if another server owns it. `holder` names the home of
    /// this server. A server of the same home takes over at once, because the lock of the home
    /// proves that the previous one is gone.
    pub async fn own(&self, holder: &str) -> Result<Option<Ownership>, StoreError> {
        let Some(ownership) = ownership::own(&self.backend, holder).await? else { return Ok(None) };
        // `own` has started the ledger, and from here on only this process may write.
        garbage::backfill(self).await?;
        self.measure_uploads().await?;
        Ok(Some(ownership))
    }

    /// Gives up ownership cleanly.
    pub async fn release(&self, ownership: Ownership) -> Result<(), StoreError> {
        let released = self.backend.write(ownership::Release).await;
        drop(ownership);
        released
    }

    /// Tells if this process may write.
    pub fn standing(&self) -> Standing {
        self.backend.fence.standing()
    }

    /// Completes with the reason when this process has lost the store for good.
    pub async fn lost(&self) -> String {
        self.backend.fence.lost().await
    }

    /// Signs the ledger rows since the last seal. `None` if there are none.
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

    /// Compares the last seal that a home directory records with the database.
    pub async fn continuity(&self, noted: Option<Anchor>) -> Result<Continuity, StoreError> {
        ledger::continuity(&mut self.backend.reader().await?.conn(), noted).await
    }

    /// Accepts a database without the seal that the home directory records. The audit record of
    /// this is part of the ledger, which is signed and recorded in the home directory before this
    /// returns.
    pub async fn accept_cut(&self, sealer: &Arc<Sealer>, entry: AuditEntry) -> Result<(), StoreError> {
        let at = entry.at;
        self.record_audit(vec![entry]).await?;
        sealer.forget();
        self.seal(sealer, at).await?;
        match sealer.noted() {
            Some(_) => Ok(()),
            None => Err(StoreError::Unavailable {
                doing: "note the accepted seal in the home",
                source: "the file ledger.head cannot be written".into(),
            }),
        }
    }

    /// Compares every record with the ledger, and the ledger with its seals, in one snapshot of the
    /// database.
    pub async fn verify_ledger(&self, evidence: &Evidence) -> Result<LedgerReport, StoreError> {
        let mut reader = self.backend.reader().await?;
        let mut conn = reader.conn();
        let begin = conn.either("BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        conn.execute("begin a snapshot", begin, values![]).await?;
        let report = ledger::check(&mut conn, evidence).await;
        conn.execute("end a snapshot", "ROLLBACK", values![]).await?;
        report
    }

    /// Finishes queued writes and closes the connections. Later calls on any clone return
    /// [`StoreError::Closed`].
    pub async fn close(&self) {
        self.backend.close().await;
    }

    /// Appends events together with the rest of the commit, atomically.
    pub async fn commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let holder = Holder::Session(commit.session);
        let kept = commit.events.iter().filter(|event| references::keeps(&event.kind));
        let named = self.named_in(kept.map(|event| event.payload.as_str())).await?;
        if named.is_empty() {
            return self.backend.write(commit).await;
        }
        self.backend
            .write(Referring { write: commit, references: References { holder, named, cause: Cause::Named } })
            .await
    }

    async fn named_in(&self, texts: impl Iterator<Item = &str>) -> Result<references::Named, StoreError> {
        references::named_in(&self.blobs, texts, Age::Renewed).await.map_err(garbage::unreadable)
    }

    /// Writes something that names blobs, together with the references to them.
    async fn write_naming<O: Operation>(&self, holder: Holder, text: &str, write: O) -> Result<O::Output, O::Error> {
        let named = self.named_in(std::iter::once(text)).await?;
        self.backend.write(Referring { write, references: References { holder, named, cause: Cause::Named } }).await
    }

    pub(crate) async fn refer(&self, references: References) -> Result<(), StoreError> {
        self.backend.write(references).await
    }

    pub(crate) async fn refer_if_unchanged(
        &self,
        document: Document,
        references: References,
    ) -> Result<(), StoreError> {
        self.backend.write(ReferIfUnchanged { document, references }).await
    }

    pub(crate) async fn held_by(&self, holder: &Holder) -> Result<HashSet<String>, StoreError> {
        references::held_by(&mut self.backend.reader().await?.conn(), holder).await
    }

    pub async fn has_setting(&self, key: &str) -> Result<bool, StoreError> {
        let sql = "SELECT value FROM settings WHERE key = $1";
        let row: Option<(String,)> =
            self.backend.reader().await?.conn().optional("read a setting", sql, values![key]).await?;
        Ok(row.is_some())
    }

    /// The events after `after`, in order.
    pub async fn events(&self, session: SessionId, after: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        session::events(&mut self.backend.reader().await?.conn(), session, after, limit).await
    }

    /// The reserved amounts of the scopes from `from` up to `until`, by the text of the scope.
    /// `until` is not included.
    pub async fn reserved(&self, from: &str, until: &str) -> Result<BTreeMap<String, Amounts>, StoreError> {
        reservations::between(&mut self.backend.reader().await?.conn(), from, until).await
    }

    /// Returns the usage of sessions per day and group.
    pub async fn usage_history(&self, query: &UsageQuery) -> Result<Vec<UsageRow>, StoreError> {
        usage_days::select(&mut self.backend.reader().await?.conn(), query).await
    }

    pub async fn head(&self, session: SessionId) -> Result<Option<SessionRow>, StoreError> {
        session::head(&mut self.backend.reader().await?.conn(), session).await
    }

    /// Newest first, because ids sort by creation.
    pub async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionRow>, StoreError> {
        session::list(&mut self.backend.reader().await?.conn(), &query).await
    }

    /// The live sessions of a project, oldest first.
    pub async fn live_sessions_of(&self, project: &str) -> Result<Vec<SessionRow>, StoreError> {
        session::live_of(&mut self.backend.reader().await?.conn(), project).await
    }

    /// Replaces the terms of sessions.
    pub async fn write_terms(&self, terms: Vec<(SessionId, SessionTerms)>) -> Result<(), StoreError> {
        self.backend.write(WriteTerms(terms)).await
    }

    /// The number of sessions in each status that occurs.
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

    /// Checks the whole journal of a session against its hash chain, in constant memory.
    pub async fn verify(&self, session: SessionId) -> Result<ChainVerdict, StoreError> {
        verify::verify(&mut self.backend.reader().await?.conn(), session).await
    }

    pub async fn document(&self, kind: DocumentKind, id: &str) -> Result<Option<Document>, StoreError> {
        document::select(&mut self.backend.reader().await?.conn(), kind, id).await
    }

    /// Documents with ids after `after`, sorted by id.
    pub async fn documents(
        &self,
        kind: DocumentKind,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Document>, StoreError> {
        document::list(&mut self.backend.reader().await?.conn(), kind, after, limit).await
    }

    /// Documents of one tenant with names after `after`, sorted.
    pub async fn documents_of(
        &self,
        kind: DocumentKind,
        tenant: &Tenant,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<Vec<Document>, StoreError> {
        document::list_of(&mut self.backend.reader().await?.conn(), kind, tenant, after, limit).await
    }

    /// Records that tokens were used. An older time than the recorded one changes nothing.
    pub async fn record_token_uses(&self, uses: Vec<(TokenId, Timestamp)>) -> Result<(), StoreError> {
        self.backend.write(RecordTokenUses(uses)).await
    }

    /// The last recorded use of each token.
    pub async fn token_uses(&self) -> Result<Vec<(TokenId, Timestamp)>, StoreError> {
        let rows = token_use::all(&mut self.backend.reader().await?.conn()).await?;
        let read = |(token, at): (String, i64)| Some((token.parse().ok()?, Timestamp::from_millis(at)));
        Ok(rows.into_iter().filter_map(read).collect())
    }

    /// Records that a project uploaded a blob, if its bytes fit into the quota.
    pub async fn record_upload(&self, project: &Name, upload: &Upload, allowed: Allowed) -> Result<(), StorageError> {
        // The file is there and young. So a removal either came before it, and its records are
        // forgotten when the lock is free, or leaves it alone.
        let _recording = self.uploads.lock().await;
        let item = StoredItem { project: project.to_string(), id: upload.hash.to_string(), bytes: upload.len };
        self.add_storage(StorageKind::Blob, item, allowed).await
    }

    /// Counts something that a project keeps, if it fits into the quota. An item that is there
    /// already counts once.
    pub async fn add_storage(&self, kind: StorageKind, item: StoredItem, allowed: Allowed) -> Result<(), StorageError> {
        self.backend.write(AddStorage { kind, item, allowed }).await
    }

    /// Replaces everything of a kind that a project keeps, or that all projects keep.
    pub async fn replace_storage(
        &self,
        kind: StorageKind,
        project: Option<&Name>,
        items: Vec<StoredItem>,
    ) -> Result<(), StoreError> {
        self.backend.write(ReplaceStorage { kind, project: project.map(Name::to_string), items }).await
    }

    /// Forgets everything that a project keeps.
    pub async fn forget_storage_of(&self, project: &str) -> Result<(), StoreError> {
        self.backend.write(RemoveStorageOf(project.to_owned())).await
    }

    /// Corrects the recorded uploads by the files. A server that was killed may have removed a file
    /// and not its record, and an older version recorded no sizes.
    async fn measure_uploads(&self) -> Result<(), StoreError> {
        let recorded =
            project_storage::items(&mut self.backend.reader().await?.conn(), StorageKind::Blob, None).await?;
        match project_storage::measured(&self.blobs, recorded).await.map_err(garbage::unreadable)? {
            Some(items) => self.replace_storage(StorageKind::Blob, None, items).await,
            None => Ok(()),
        }
    }

    /// Returns true if the project uploaded the blob.
    pub async fn uploaded(&self, project: &Name, hash: &ContentHash) -> Result<bool, StoreError> {
        project_storage::uploaded(&mut self.backend.reader().await?.conn(), project, hash).await
    }

    pub async fn write_document(&self, write: DocumentWrite) -> Result<Document, WriteError> {
        let holder = Holder::Document { kind: write.kind.as_str(), id: write.id.clone() };
        let body = write.body.clone();
        self.write_naming(holder, &body, write).await
    }

    /// Deletes a document. Returns false, and writes no audit rows, if it does not exist.
    pub async fn delete_document(
        &self,
        kind: DocumentKind,
        id: &str,
        audit: Vec<AuditEntry>,
    ) -> Result<bool, StoreError> {
        let holder = match kind {
            // The versions of content hold their blobs together.
            DocumentKind::Content => Holder::Content { name: id.to_owned() },
            _ => Holder::Document { kind: kind.as_str(), id: id.to_owned() },
        };
        let references = References { holder, named: references::Named::new(), cause: Cause::Deleted };
        self.backend.write(Referring { write: DeleteDocument { kind, id: id.to_owned(), audit }, references }).await
    }

    /// Adds a version of content and returns its number.
    pub async fn push_content(&self, push: ContentPush) -> Result<u64, PushError> {
        let (holder, body) = (Holder::Content { name: push.name.clone() }, push.body.clone());
        self.write_naming(holder, &body, push).await
    }

    pub async fn record_audit(&self, entries: Vec<AuditEntry>) -> Result<(), StoreError> {
        self.backend.write(RecordAudit(entries)).await
    }

    /// Audit rows, ordered by id.
    pub async fn audit(&self, query: AuditQuery) -> Result<Vec<AuditRow>, StoreError> {
        audit::select(&mut self.backend.reader().await?.conn(), &query).await
    }

    pub async fn idempotent(&self, key: &IdempotencyKey) -> Result<Option<IdempotencyRow>, StoreError> {
        idempotency::select(&mut self.backend.reader().await?.conn(), key).await
    }

    /// Deletes older keys and returns their number.
    pub async fn forget_idempotency_before(&self, at: Timestamp) -> Result<u64, StoreError> {
        self.backend.write(ForgetBefore(at)).await
    }

    /// Returns the stored value, or stores `value` if there is none. All callers get the same
    /// answer.
    pub async fn setting_or_insert(&self, key: &str, value: &str) -> Result<String, StoreError> {
        self.backend.write(SettingOrInsert { key: key.to_owned(), value: value.to_owned() }).await
    }

    /// Number of uses of the database since it was opened.
    pub fn accesses(&self) -> Accesses {
        self.backend.accesses()
    }

    /// Checks that the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let mut reader = self.backend.reader().await?;
        let _: Option<(i64,)> =
            reader.conn().optional("ping", "SELECT COUNT(*) FROM settings WHERE key = ''", values![]).await?;
        Ok(())
    }

    /// Blobs that are older than `before` and that nothing in the store refers to, sorted. The
    /// first call that finds one reads every event and document, to add missing references to the
    /// table.
    pub async fn unreferenced_blobs(&self, before: SystemTime) -> Result<Vec<StoredBlob>, StoreError> {
        let found = self.without_reference(before).await?;
        if found.is_empty() || self.references_restored.initialized() {
            return Ok(found);
        }
        self.references_restored.get_or_try_init(|| garbage::restore(self)).await?;
        self.without_reference(before).await
    }

    async fn without_reference(&self, before: SystemTime) -> Result<Vec<StoredBlob>, StoreError> {
        garbage::unreferenced(&mut self.backend.reader().await?.conn(), &self.blobs, before).await
    }

    /// Removes those blobs and returns them. This server may store and reference blobs meanwhile,
    /// because those are younger than `before`. For this reason `before` must be further in the
    /// past than the longest time between storing and referencing a blob. No other server may use
    /// the store.
    pub async fn collect_blobs(&self, before: SystemTime) -> Result<Vec<StoredBlob>, StoreError> {
        let mut removed = Vec::new();
        for blobs in self.unreferenced_blobs(before).await?.chunks(REMOVED_TOGETHER) {
            let _removing = self.uploads.lock().await;
            let (known, mut failed) = (removed.len(), None);
            for blob in blobs {
                match self.blobs.remove_older(&blob.hash, before).await {
                    Ok(gone) => removed.extend(gone.then_some(*blob)),
                    Err(error) => failed = Some(error),
                }
            }
            failpoints::removed_blobs();
            let ids: Vec<String> = removed[known..].iter().map(|blob| blob.hash.to_string()).collect();
            if !ids.is_empty() {
                self.backend.write(RemoveStorage { kind: StorageKind::Blob, ids }).await?;
            }
            if let Some(error) = failed {
                return Err(garbage::unreadable(error));
            }
        }
        Ok(removed)
    }

    /// Removes the blob of an upload whose operation has ended. The blob stays if it existed before
    /// the upload, if it was stored again since, or if an event or a document names it.
    pub async fn discard(&self, upload: &Upload) -> Result<(), StoreError> {
        let Some(made) = upload.made else { return Ok(()) };
        if references::is_held(&mut self.backend.reader().await?.conn(), &upload.hash).await? {
            return Ok(());
        }
        let removed = self.blobs.remove_unchanged(&upload.hash, made).await;
        removed.map(drop).map_err(|error: BlobError| garbage::unreadable(error))
    }

    /// Bytes of a session's events. Reads all of them.
    pub async fn event_bytes(&self, session: SessionId) -> Result<u64, StoreError> {
        references::event_bytes(&mut self.backend.reader().await?.conn(), session).await
    }

    /// Bytes of the blobs that a session's events name.
    pub async fn blob_bytes(&self, session: SessionId) -> Result<u64, StoreError> {
        references::blob_bytes(&mut self.backend.reader().await?.conn(), session).await
    }

    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }
}
