use futures::future::join_all;
use stead_core::SessionId;
use stead_store::{Commit, CommitError, Hash, IdempotencyClaim, IdempotencyKey};

use crate::fixture::{Fixture, at, create, session_id};
use crate::journal::boxes;

fn key() -> IdempotencyKey {
    IdempotencyKey { scope: "admin POST /sessions".to_owned(), key: "k-1".to_owned() }
}

fn claimed(id: SessionId, body: &str) -> Commit {
    let claim = IdempotencyClaim { key: key(), body_hash: Hash::of(body.as_bytes()), target: id.to_string() };
    Commit { idempotency: Some(claim), ..create(id, 2) }
}

/// Two stores, so that the race is between connections on both databases.
pub(crate) async fn fifty_creates_with_one_key_make_one_session(fixture: Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    let tasks = (0..50).map(|number| {
        let store = stores[number % 2].clone();
        tokio::spawn(async move {
            let id = session_id();
            match store.commit(claimed(id, "{}")).await {
                Ok(_) => (true, id.to_string()),
                Err(CommitError::IdempotencyReplay(row)) => (false, row.target),
                Err(other) => panic!("{other:?}"),
            }
        })
    });
    let answers: Vec<_> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|(made, _)| *made).count(), 1);
    let sessions = stores[0].live_sessions().await.unwrap();
    assert_eq!(sessions.len(), 1);
    assert!(answers.iter().all(|(_, target)| *target == sessions[0].id.to_string()));
}

pub(crate) async fn the_same_key_with_another_body_is_a_mismatch(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    store.commit(claimed(id, "{}")).await.unwrap();
    let row = store.idempotent(&key()).await.unwrap().unwrap();
    assert_eq!((row.target.clone(), row.body_hash, row.at), (id.to_string(), Hash::of(b"{}"), at(0)));

    let again = store.commit(claimed(session_id(), "{}")).await.unwrap_err();
    assert!(matches!(again, CommitError::IdempotencyReplay(found) if found == row));
    let other = store.commit(claimed(session_id(), "{\"x\":1}")).await.unwrap_err();
    assert!(matches!(other, CommitError::IdempotencyMismatch(found) if found == row));

    let mut elsewhere = claimed(session_id(), "{\"x\":1}");
    elsewhere.idempotency.as_mut().unwrap().key.scope = "another caller".to_owned();
    store.commit(elsewhere).await.unwrap();
}

pub(crate) async fn a_refused_commit_leaves_its_key_free(fixture: Fixture) {
    let store = fixture.open().await;
    let mut refused = claimed(session_id(), "{}");
    refused.admission = Some(boxes(0));
    assert!(matches!(store.commit(refused).await, Err(CommitError::Full { live: 0, max: 0 })));
    assert_eq!(store.idempotent(&key()).await.unwrap(), None);
    store.commit(claimed(session_id(), "{}")).await.unwrap();
}

pub(crate) async fn old_keys_are_forgotten(fixture: Fixture) {
    let store = fixture.open().await;
    store.commit(claimed(session_id(), "{}")).await.unwrap();
    assert_eq!(store.forget_idempotency_before(at(0)).await.unwrap(), 0);
    assert_eq!(store.forget_idempotency_before(at(1)).await.unwrap(), 1);
    assert_eq!(store.idempotent(&key()).await.unwrap(), None);
}
