//! Blobs that may be removed and blobs that must stay.

use std::time::{Duration, SystemTime};

use stead_core::ContentHash;
use stead_core::Timestamp;
use stead_store::{Commit, DocumentKind, DocumentWrite, NewEvent, Store, WriteMode};

use crate::fixture::{Fixture, create, session_id};

async fn garbage(store: &Store, before: SystemTime) -> Vec<ContentHash> {
    let found = store.unreferenced_blobs(before).await.unwrap();
    found.iter().map(|blob| blob.hash).collect()
}

fn later() -> SystemTime {
    SystemTime::now() + Duration::from_secs(60)
}

pub(crate) async fn only_what_nothing_refers_to_is_garbage(fixture: Fixture) {
    let store = fixture.open().await;
    let put = |bytes: &'static [u8]| store.blobs().put(bytes);
    let (named, bare) = (put(b"named").await.unwrap(), put(b"bare").await.unwrap());
    let (listed, nested) = (put(b"listed").await.unwrap(), put(b"nested").await.unwrap());
    let inner = format!("[{{\"hash\": \"{}\"}}]", nested.to_hex());
    let inner = store.blobs().put(inner.into_bytes()).await.unwrap();
    let manifest = format!("{{\"files\": [\"{listed}\", \"{inner}\"], \"rest\": \"{}\"}}", "x".repeat(600_000));
    let manifest = store.blobs().put(manifest.into_bytes()).await.unwrap();
    let orphan = put(b"orphan").await.unwrap();
    // A text that contains a hash but is not JSON is content and not a reference.
    let text = format!("see {orphan}");
    let text = store.blobs().put(text.into_bytes()).await.unwrap();
    let payload =
        format!("{{\"a\": \"{named}\", \"b\": \"{}\", \"c\": \"{manifest}\", \"d\": \"{text}\"}}", bare.to_hex());
    // The bytes of an upload are needed until the operation ends; its intent names them.
    let upload = put(b"upload").await.unwrap();
    let intent = NewEvent { kind: "FileOperationStarted".to_owned(), payload: format!("{{\"blob\": \"{upload}\"}}") };
    let events = [NewEvent { kind: "Something".to_owned(), payload }, intent].into();
    let session = session_id();
    store.commit(Commit { events, ..create(session, 1) }).await.unwrap();
    let mut unnamed = [orphan, upload];
    unnamed.sort_unstable();
    assert_eq!(garbage(&store, later()).await, unnamed);
    assert!(store.blob_bytes(session).await.unwrap() > 600_000, "the manifest is charged to its session");
    store.close().await;

    // A database without recorded references is scanned once.
    fixture.tamper("DELETE FROM blob_references".to_owned()).await;
    fixture.tamper("DELETE FROM settings WHERE key = 'blob_references_complete'".to_owned()).await;
    let store = fixture.open().await;
    let _ownership = store.own("test").await.unwrap().unwrap();
    assert_eq!(garbage(&store, later()).await, unnamed);
    let removed: Vec<ContentHash> = store.collect_blobs(later()).await.unwrap().iter().map(|blob| blob.hash).collect();
    assert_eq!(removed, unnamed);
    assert_eq!(garbage(&store, later()).await, []);
    assert!(store.blobs().contains(&nested).await.unwrap());
}

pub(crate) async fn a_document_holds_what_it_names_now(fixture: Fixture) {
    let store = fixture.open().await;
    let (old, new) = (store.blobs().put(&b"old"[..]).await.unwrap(), store.blobs().put(&b"new"[..]).await.unwrap());
    let write = |hash: ContentHash| DocumentWrite {
        kind: DocumentKind::AgentType,
        id: "a".to_owned(),
        body: format!("{{\"bundle\": \"{hash}\"}}"),
        mode: WriteMode::CreateOrReplace,
        expected_revision: None,
        at: Timestamp::from_millis(1),
        audit: Vec::new(),
        idempotency: None,
    };
    store.write_document(write(old)).await.unwrap();
    assert_eq!(garbage(&store, later()).await, [new]);
    store.write_document(write(new)).await.unwrap();
    assert_eq!(garbage(&store, later()).await, [old]);
    store.delete_document(DocumentKind::AgentType, "a", Vec::new()).await.unwrap();
    assert_eq!(garbage(&store, later()).await.len(), 2);
}

pub(crate) async fn an_upload_is_removed_unless_it_is_referenced(fixture: Fixture) {
    let store = fixture.open().await;
    let upload = |bytes: &'static [u8]| store.blobs().put_stream(bytes);
    let contains = async |hash: ContentHash| store.blobs().contains(&hash).await.unwrap();

    let alone = upload(b"alone").await.unwrap();
    store.discard(&alone).await.unwrap();
    assert!(!contains(alone.hash).await);
    // A second put, an earlier put and a reference each keep the blob.
    let again = upload(b"again").await.unwrap();
    store.blobs().put(&b"again"[..]).await.unwrap();
    store.discard(&again).await.unwrap();
    assert!(contains(again.hash).await);
    let second = upload(b"again").await.unwrap();
    store.discard(&second).await.unwrap();
    assert!(contains(again.hash).await);
    let named = upload(b"named").await.unwrap();
    let payload = format!("{{\"blob\": \"{}\"}}", named.hash);
    let events = [NewEvent { kind: "Something".to_owned(), payload }].into();
    store.commit(Commit { events, ..create(session_id(), 1) }).await.unwrap();
    store.discard(&named).await.unwrap();
    assert!(contains(named.hash).await);
}

pub(crate) async fn what_was_put_lately_is_left_alone_with_what_it_refers_to(fixture: Fixture) {
    let store = fixture.open().await;
    let old = store.blobs().put(&b"old"[..]).await.unwrap();
    let again = store.blobs().put(&b"put again"[..]).await.unwrap();
    for hash in [&old, &again] {
        let hex = hash.to_hex();
        let path = fixture.blobs().join("sha256").join(&hex[..2]).join(hex);
        let file = std::fs::File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    }
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    store.blobs().put(&b"put again"[..]).await.unwrap();
    assert_eq!(garbage(&store, hour_ago).await, [old]);
    store.blobs().put(format!("{{\"of\": \"{old}\"}}").into_bytes()).await.unwrap();
    assert_eq!(garbage(&store, hour_ago).await, []);
}
