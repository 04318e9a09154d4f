//! Failures injected at critical moments.

use futures::future::join_all;
use stead_store::{
    AuditQuery, CommitError, DocumentKind, Hash, IdempotencyClaim, IdempotencyKey, StoreError, WriteError, WriteMode,
};

use crate::documents::write;
use crate::fixture::{Fixture, append, audit, create, head, session_id};
use crate::tamper::assert_intact;

pub(crate) async fn a_failed_audit_write_takes_everything_back(fixture: Fixture) {
    let store = fixture.open().await;
    let (id, new) = (session_id(), session_id());
    let before = store.commit(create(id, 1)).await.unwrap();
    let key = IdempotencyKey { scope: "s".into(), key: "k".into() };
    let mut created = create(new, 2);
    created.audit = vec![audit("x", Some(new))];
    created.idempotency =
        Some(IdempotencyClaim { key: key.clone(), body_hash: Hash::of(b""), target: new.to_string() });
    let mut appended = append(id, Some(1), 2);
    appended.head = head("closed", false);
    appended.audit = vec![audit("x", Some(id)), audit("y", Some(id))];

    // The second of the two rows fails, so the first must be rolled back as well.
    fail::cfg("store.audit", "1*off->return").unwrap();
    let refused = store.commit(appended.clone()).await;
    assert!(matches!(refused, Err(CommitError::Store(StoreError::Unavailable { .. }))), "{refused:?}");
    assert!(store.commit(created.clone()).await.is_err());
    fail::remove("store.audit");

    let row = store.head(id).await.unwrap().unwrap();
    assert_eq!((row.seq, row.head_hash, row.live), (1, before.head_hash, true));
    assert_eq!(store.head(new).await.unwrap(), None);
    assert_eq!(store.idempotent(&key).await.unwrap(), None);
    assert_eq!(store.audit(AuditQuery { limit: 10, ..AuditQuery::default() }).await.unwrap(), []);
    store.commit(appended).await.unwrap();
    store.commit(created).await.unwrap();
    assert_intact(&store, id, 3).await;
}

pub(crate) async fn a_failed_audit_write_takes_a_document_back(fixture: Fixture) {
    let store = fixture.open().await;
    store.write_document(write("a", WriteMode::Create, None)).await.unwrap();
    fail::cfg("store.audit", "return").unwrap();
    let refused = store.write_document(write("a", WriteMode::Replace, None)).await;
    assert!(matches!(refused, Err(WriteError::Store(StoreError::Unavailable { .. }))));
    assert!(store.write_document(write("b", WriteMode::Create, None)).await.is_err());
    assert!(store.delete_document(DocumentKind::AgentType, "a", vec![audit("x", None)]).await.is_err());
    fail::remove("store.audit");
    let documents = store.documents(DocumentKind::AgentType, None, 10).await.unwrap();
    assert_eq!(
        documents.iter().map(|document| (document.id.as_str(), document.revision)).collect::<Vec<_>>(),
        [("a", 1)]
    );
}

pub(crate) async fn a_failure_before_commit_leaves_nothing(fixture: Fixture) {
    let store = fixture.open().await;
    let ids: Vec<_> = (0..8).map(|_| session_id()).collect();
    fail::cfg("store.commit.before", "return").unwrap();
    for answer in join_all(ids.iter().map(|id| store.commit(create(*id, 1)))).await {
        assert!(matches!(answer, Err(CommitError::Store(StoreError::Unavailable { .. }))), "{answer:?}");
    }
    fail::remove("store.commit.before");
    assert_eq!(store.live_sessions().await.unwrap(), []);
    for answer in join_all(ids.iter().map(|id| store.commit(create(*id, 1)))).await {
        answer.unwrap();
    }
}

pub(crate) async fn a_lost_answer_is_an_unknown_outcome(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    fail::cfg("store.commit.after", "return").unwrap();
    let answer = store.commit(create(id, 1)).await;
    assert!(matches!(answer, Err(CommitError::Store(StoreError::OutcomeUnknown { .. }))));
    fail::remove("store.commit.after");
    assert_intact(&store, id, 1).await;
    store.commit(append(id, Some(1), 1)).await.unwrap();
}

/// The first commit delays the writer until the others have queued up, so they form one batch.
pub(crate) async fn one_failing_member_does_not_spoil_its_batch(fixture: Fixture) {
    let store = fixture.open().await;
    fail::cfg("store.commit.before", "1*sleep(300)->off").unwrap();
    fail::cfg("store.audit", "return").unwrap();
    let commits = (0..20).map(|number| {
        let mut commit = create(session_id(), 2);
        if number == 10 {
            commit.audit = vec![audit("x", None)];
        }
        store.commit(commit)
    });
    let answers = join_all(commits).await;
    let failed: Vec<_> = (0..20).filter(|number| answers[*number].is_err()).collect();
    assert_eq!(failed, [10]);
    assert_eq!(store.live_sessions().await.unwrap().len(), 19);
}

pub(crate) async fn a_panic_does_not_end_the_store(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    fail::cfg("store.commit.before", "1*panic->off").unwrap();
    let other = store.clone();
    let first = tokio::spawn(async move { other.commit(create(id, 1)).await }).await;
    // On PostgreSQL the caller's own task panics. On SQLite the writer's task panics and the caller
    // gets an error.
    assert!(!matches!(first, Ok(Ok(_))));
    assert_eq!(store.head(id).await.unwrap(), None);
    store.commit(create(id, 1)).await.unwrap();
}
