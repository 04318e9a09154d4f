//! What may be removed, and what never.

use std::time::{Duration, SystemTime};

use stead_store::{Commit, Digest, NewEvent, Store};

use crate::fixture::{Fixture, create, session_id};

async fn garbage(store: &Store, before: SystemTime) -> Vec<Digest> {
    let ownership = store.own("test").await.unwrap().unwrap();
    let found = store.unreferenced_blobs(&ownership, before).await.unwrap();
    found.iter().map(|blob| blob.digest).collect()
}

fn later() -> SystemTime {
    SystemTime::now() + Duration::from_secs(60)
}

pub(crate) async fn only_what_nothing_refers_to_is_garbage(fixture: Fixture) {
    let store = fixture.open().await;
    let put = |bytes: &'static [u8]| store.blobs().put(bytes);
    let (named, bare, raw) = (put(b"named").await.unwrap(), put(b"bare").await.unwrap(), put(b"raw").await.unwrap());
    let (listed, nested) = (put(b"listed").await.unwrap(), put(b"nested").await.unwrap());
    let inner = format!("[{{\"digest\": \"{}\"}}]", nested.to_hex());
    let inner = store.blobs().put(inner.into_bytes()).await.unwrap();
    let manifest = format!("{{\"files\": [\"{listed}\", \"{inner}\"], \"rest\": \"{}\"}}", "x".repeat(600_000));
    let manifest = store.blobs().put(manifest.into_bytes()).await.unwrap();
    let orphan = put(b"orphan").await.unwrap();
    // A text that holds a digest and is not JSON is content, not a reference.
    let text = format!("see {orphan}");
    let text = store.blobs().put(text.into_bytes()).await.unwrap();
    let payload =
        format!("{{\"a\": \"{named}\", \"b\": \"{}\", \"c\": \"{manifest}\", \"d\": \"{text}\"}}", bare.to_hex());
    let events = vec![NewEvent { kind: "Something".to_owned(), payload }];
    store.commit(Commit { events, ..create(session_id(), 1) }).await.unwrap();
    // A table this version knows nothing of.
    let bytes = if matches!(fixture.database, stead_store::Database::Sqlite(_)) { "BLOB" } else { "BYTEA" };
    let literal = if bytes == "BLOB" { format!("X'{}'", raw.to_hex()) } else { format!("'\\x{}'", raw.to_hex()) };
    fixture.tamper(format!("CREATE TABLE \"later on\" (id BIGINT, \"of \"\"it\" {bytes})")).await;
    fixture.tamper(format!("INSERT INTO \"later on\" VALUES (1, {literal})")).await;

    assert_eq!(garbage(&store, later()).await, [orphan]);
    let removed = store.blobs().remove(&orphan).await.unwrap();
    assert!(removed && !store.blobs().remove(&orphan).await.unwrap());
    assert_eq!(garbage(&store, later()).await, []);
    assert!(store.blobs().contains(&nested).await.unwrap());
}

pub(crate) async fn what_was_put_lately_is_left_alone_with_what_it_refers_to(fixture: Fixture) {
    let store = fixture.open().await;
    let old = store.blobs().put(&b"old"[..]).await.unwrap();
    let again = store.blobs().put(&b"put again"[..]).await.unwrap();
    for digest in [&old, &again] {
        let hex = digest.to_hex();
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
