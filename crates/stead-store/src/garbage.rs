//! Blobs that nothing refers to any more, by the table of references.
//!
//! A database from before that table is read once, whole, by the first server that owns it ([`backfill`]).

use std::collections::HashSet;
use std::time::SystemTime;

use crate::blobs::{BlobError, Blobs, StoredBlob};
use crate::document::DocumentKind;
use crate::error::StoreError;
use crate::references::{self, Age, Holder, References};
use crate::session::SessionQuery;
use crate::sql::{Conn, values};
use crate::store::Store;

const PAGE: u32 = 500;
/// The setting that says that every reference of older versions is in the table.
const COMPLETE: &str = "blob_references_complete";

/// Blobs that are older than the moment and that nothing refers to, sorted.
pub(crate) async fn unreferenced(
    conn: &mut Conn<'_>,
    blobs: &Blobs,
    before: SystemTime,
) -> Result<Vec<StoredBlob>, StoreError> {
    // The files first: a blob that is put and named after this is not in the list.
    let (mut old, young): (Vec<StoredBlob>, Vec<StoredBlob>) =
        blobs.list().await.map_err(unreadable)?.into_iter().partition(|blob| blob.modified < before);
    // A manifest that nothing names yet keeps what it names.
    let young: String = young.iter().map(|blob| format!("{}\n", blob.digest)).collect();
    let kept =
        references::named_in(blobs, std::iter::once(young.as_str()), Age::Unchanged).await.map_err(unreadable)?;
    old.retain(|blob| !kept.contains_key(&blob.digest));
    let sql = "SELECT DISTINCT digest FROM blob_references";
    let held: Vec<(String,)> = conn.all("list references to blobs", sql, values![]).await?;
    let held: HashSet<String> = held.into_iter().map(|(digest,)| digest).collect();
    old.retain(|blob| !held.contains(&blob.digest.to_hex()));
    old.sort_unstable_by_key(|blob| blob.digest);
    Ok(old)
}

/// Finds the references of a database that was written before there was a table of them.
pub(crate) async fn backfill(store: &Store) -> Result<(), StoreError> {
    if store.has_setting(COMPLETE).await? {
        return Ok(());
    }
    let mut after = None;
    loop {
        let page = store.sessions(SessionQuery { after, limit: PAGE, ..SessionQuery::default() }).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for session in &page {
            backfill_session(store, session.id).await?;
        }
    }
    for kind in DocumentKind::ALL {
        backfill_documents(store, kind).await?;
    }
    store.setting_or_insert(COMPLETE, "1").await.map(drop)
}

async fn backfill_session(store: &Store, session: stead_core::SessionId) -> Result<(), StoreError> {
    let mut after = 0;
    loop {
        let page = store.events(session, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.seq;
        let kept = page.iter().filter(|event| references::keeps(&event.kind)).map(|event| event.payload.as_str());
        refer(store, Holder::Session(session), kept).await?;
    }
}

async fn backfill_documents(store: &Store, kind: DocumentKind) -> Result<(), StoreError> {
    let mut after: Option<String> = None;
    loop {
        let page = store.documents(kind, after.as_deref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.id.clone());
        for document in &page {
            let holder = match kind {
                DocumentKind::ContentVersion => Holder::Content { name: document.id.clone() },
                _ => Holder::Document { kind: kind.as_str(), id: document.id.clone() },
            };
            refer(store, holder, std::iter::once(document.body.as_str())).await?;
        }
    }
}

async fn refer(store: &Store, holder: Holder, texts: impl Iterator<Item = &str>) -> Result<(), StoreError> {
    let named = references::named_in(store.blobs(), texts, Age::Renewed).await.map_err(unreadable)?;
    if named.is_empty() { Ok(()) } else { store.refer(References { holder, named }).await }
}

pub(crate) fn unreadable(error: BlobError) -> StoreError {
    StoreError::Unavailable { doing: "look at the blobs", source: error.into() }
}
