//! Finds blobs without references.
//!
//! The first server that owns a database from before the table of references reads it completely
//! ([`backfill`]). Each process reads it again before it removes its first blob ([`restore`]).

use std::collections::HashSet;
use std::time::SystemTime;

use crate::blobs::references::{self, Age, Cause, Holder, Named, References};
use crate::blobs::{BlobError, Blobs, StoredBlob};
use crate::database::operation::Operation;
use crate::database::sql::{Conn, values};
use crate::error::StoreError;
use crate::journal::session::SessionQuery;
use crate::store::Store;
use crate::tables::document::{Document, DocumentKind};

const PAGE: u32 = 500;
/// The setting that marks that all references of older versions are in the table.
const COMPLETE: &str = "blob_references_complete";

/// Blobs that are older than `before` and have no references, sorted.
pub(crate) async fn unreferenced(
    conn: &mut Conn<'_>,
    blobs: &Blobs,
    before: SystemTime,
) -> Result<Vec<StoredBlob>, StoreError> {
    // List the files first: a blob that is stored and referenced after this is not in the list.
    let (mut old, young): (Vec<StoredBlob>, Vec<StoredBlob>) =
        blobs.list().await.map_err(unreadable)?.into_iter().partition(|blob| blob.modified < before);
    // A young manifest without a reference keeps the blobs that it names.
    let young: String = young.iter().map(|blob| format!("{}\n", blob.hash)).collect();
    let kept =
        references::named_in(blobs, std::iter::once(young.as_str()), Age::Unchanged).await.map_err(unreadable)?;
    old.retain(|blob| !kept.contains_key(&blob.hash));
    let sql = "SELECT DISTINCT digest FROM blob_references";
    let held: Vec<(String,)> = conn.all("list references to blobs", sql, values![]).await?;
    let held: HashSet<String> = held.into_iter().map(|(hash,)| hash).collect();
    old.retain(|blob| !held.contains(&blob.hash.to_hex()));
    old.sort_unstable_by_key(|blob| blob.hash);
    Ok(old)
}

/// Adds the references of a database that is older than the table of references.
pub(crate) async fn backfill(store: &Store) -> Result<(), StoreError> {
    if store.has_setting(COMPLETE).await? {
        return Ok(());
    }
    restore(store).await?;
    store.setting_or_insert(COMPLETE, "1").await.map(drop)
}

/// Adds the references of events and documents that the table lacks. Memory does not grow with the
/// journals.
///
/// Needed because only the table decides what may be removed, and anything with write access to the
/// database could have deleted its rows.
pub(crate) async fn restore(store: &Store) -> Result<(), StoreError> {
    let (mut added, mut after) = (0, None);
    loop {
        let page = store.sessions(SessionQuery { after, limit: PAGE, ..SessionQuery::default() }).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for session in &page {
            added += restore_session(store, session.id).await?;
        }
    }
    for kind in DocumentKind::ALL {
        added += restore_documents(store, kind).await?;
    }
    if added > 0 {
        tracing::warn!(references = added, "the table of references to blobs was incomplete; it is complete again");
    }
    Ok(())
}

async fn restore_session(store: &Store, session: stead_core::SessionId) -> Result<usize, StoreError> {
    let holder = Holder::Session(session);
    let (mut added, mut after) = (0, 0);
    loop {
        let page = store.events(session, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(added) };
        after = last.seq;
        let kept = page.iter().filter(|event| references::keeps(&event.kind)).map(|event| event.payload.as_str());
        if let Some(named) = lacking(store, &holder, kept).await? {
            added += named.len();
            store.refer(References { holder: holder.clone(), named, cause: Cause::Lost }).await?;
        }
    }
}

async fn restore_documents(store: &Store, kind: DocumentKind) -> Result<usize, StoreError> {
    let (mut added, mut after): (usize, Option<String>) = (0, None);
    loop {
        let page = store.documents(kind, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(added) };
        after = Some(last.id.clone());
        for document in page {
            let holder = holder_of(&document);
            let Some(named) = lacking(store, &holder, std::iter::once(document.body.as_str())).await? else { continue };
            added += named.len();
            store.refer_if_unchanged(document, References { holder, named, cause: Cause::Lost }).await?;
        }
    }
}

fn holder_of(Document { kind, id, .. }: &Document) -> Holder {
    let name = match kind {
        DocumentKind::Content => Some(id.as_str()),
        // `NAME@VERSION`
        DocumentKind::ContentVersion => id.rsplit_once('@').map(|(name, _)| name),
        _ => None,
    };
    match name {
        Some(name) => Holder::Content { name: name.to_owned() },
        None => Holder::Document { kind: kind.as_str(), id: id.clone() },
    }
}

/// Returns the blobs that texts name, if the table lacks any of them for this holder. Resets their
/// age, so that none is removed meanwhile.
async fn lacking<'a>(
    store: &Store,
    holder: &Holder,
    texts: impl Iterator<Item = &'a str> + Clone,
) -> Result<Option<Named>, StoreError> {
    let blobs = store.blobs();
    let named = references::named_in(blobs, texts.clone(), Age::Unchanged).await.map_err(unreadable)?;
    if named.is_empty() {
        return Ok(None);
    }
    let held = store.held_by(holder).await?;
    if named.keys().all(|hash| held.contains(&hash.to_hex())) {
        return Ok(None);
    }
    references::named_in(blobs, texts, Age::Renewed).await.map(Some).map_err(unreadable)
}

/// Adds references of a document, unless it was changed meanwhile, because the change wrote its
/// own.
pub(crate) struct ReferIfUnchanged {
    pub(crate) document: Document,
    pub(crate) references: References,
}

impl Operation for ReferIfUnchanged {
    type Output = ();
    type Error = StoreError;

    async fn run(&self, conn: &mut Conn<'_>) -> Result<(), StoreError> {
        let sql = conn.either(
            "SELECT revision FROM documents WHERE kind = $1 AND id = $2",
            "SELECT revision FROM documents WHERE kind = $1 AND id = $2 FOR UPDATE",
        );
        let Document { kind, id, revision, .. } = &self.document;
        let row: Option<(i64,)> = conn.optional("read a document", sql, values![kind.as_str(), id.clone()]).await?;
        if row == Some((*revision,)) { self.references.record(conn).await } else { Ok(()) }
    }
}

pub(crate) fn unreadable(error: BlobError) -> StoreError {
    StoreError::Unavailable { doing: "look at the blobs", source: error.into() }
}
