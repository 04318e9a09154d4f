use std::os::unix::fs::PermissionsExt as _;

use stead_store::{Database, DocumentKind, OpenError, Store, WriteMode};

use crate::documents::write;
use crate::fixture::{Fixture, append, create, session_id};
use crate::tamper::assert_intact;

pub(crate) async fn reopening_keeps_everything(fixture: Fixture) {
    let id = session_id();
    let store = fixture.open().await;
    store.commit(create(id, 3)).await.unwrap();
    store.write_document(write("a", WriteMode::Create, None)).await.unwrap();
    let digest = store.blobs().put(&b"hello"[..]).await.unwrap();
    // Dropped without a close: acknowledged data must not depend on a clean shutdown.
    drop(store);

    let store = fixture.open().await;
    assert_intact(&store, id, 3).await;
    assert!(store.document(DocumentKind::AgentType, "a").await.unwrap().is_some());
    assert_eq!(store.blobs().get(&digest).await.unwrap().unwrap(), "hello");
    store.commit(append(id, Some(3), 1)).await.unwrap();
    store.close().await;

    let store = fixture.open().await;
    assert_intact(&store, id, 4).await;
    if let Database::Sqlite(path) = &fixture.database {
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(path), 0o600);
        assert_eq!(mode(&path.with_extension("db-wal")), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        assert_eq!(mode(&fixture.blobs()), 0o700);
    }
}

pub(crate) async fn a_newer_schema_is_refused(fixture: Fixture) {
    fixture.open().await.close().await;
    fixture
        .tamper(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             SELECT 9000, 'from the future', success, checksum, 0 FROM _sqlx_migrations WHERE version = 1",
        )
        .await;
    let refused = Store::open(&fixture.database, &fixture.blobs()).await.unwrap_err();
    assert!(matches!(refused, OpenError::NewerSchema { found: 9000, known: 10, .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("schema version 9000") && text.contains("knows only up to 10"), "{text}");
}

/// Several servers on one PostgreSQL; on SQLite a second process waits for the lock.
pub(crate) async fn two_stores_share_a_database(fixture: Fixture) {
    let (one, other) = tokio::join!(fixture.open(), fixture.open());
    let id = session_id();
    one.commit(create(id, 1)).await.unwrap();
    let answers = futures::future::join_all(
        (0..20).map(|n| if n % 2 == 0 { &one } else { &other }).map(|store| store.commit(append(id, None, 1))),
    )
    .await;
    assert!(answers.iter().all(Result::is_ok));
    assert_intact(&other, id, 21).await;
}
