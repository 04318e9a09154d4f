use futures::future::join_all;
use stead_core::TokenId;
use stead_store::{AuditEntry, AuditOrder, AuditQuery, CommitError, StoreError};

use crate::fixture::{Fixture, at, audit, create, session_id};

pub(crate) async fn audit_is_read_in_order_and_filtered(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    let mut commit = create(id, 1);
    commit.audit = vec![audit("policy.resolved", Some(id)), audit("egress.refused", Some(id))];
    store.commit(commit).await.unwrap();
    store.record_audit(vec![audit("policy.resolved", None)]).await.unwrap();

    let query = AuditQuery { limit: 10, ..AuditQuery::default() };
    let all = store.audit(query.clone()).await.unwrap();
    let kinds: Vec<_> = all.iter().map(|row| row.entry.kind.as_str()).collect();
    assert_eq!(kinds, ["policy.resolved", "egress.refused", "policy.resolved"]);
    assert_eq!(all[0].entry, audit("policy.resolved", Some(id)));
    assert!(all.is_sorted_by(|a, b| a.id < b.id));

    let of_session = AuditQuery { session: Some(id), ..query.clone() };
    assert_eq!(store.audit(of_session).await.unwrap(), all[..2]);
    let of_kind = AuditQuery { kind: Some("policy.resolved".into()), after: all[0].id, ..query.clone() };
    assert_eq!(store.audit(of_kind).await.unwrap(), all[2..]);
    assert_eq!(store.audit(AuditQuery { limit: 1, ..query.clone() }).await.unwrap(), all[..1]);
    let newest = AuditQuery { order: AuditOrder::NewestFirst, limit: 2, ..query };
    assert_eq!(store.audit(newest.clone()).await.unwrap(), [all[2].clone(), all[1].clone()]);
    let older = AuditQuery { before: Some(all[1].id), ..newest };
    assert_eq!(store.audit(older).await.unwrap(), all[..1]);
}

pub(crate) async fn audit_rows_know_their_project_and_time(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    let mut commit = create(id, 1);
    commit.head.project = Some("apollo".to_owned());
    commit.audit = vec![audit("created", Some(id))];
    store.commit(commit).await.unwrap();
    // Later records of the session, and one that names the project itself.
    let token = Some(TokenId::from_bits(7));
    let mut named = AuditEntry { actor: "user:eve".to_owned(), token, at: at(7), ..audit("denied", None) };
    named.body = r#"{"project":"apollo"}"#.to_owned();
    store.record_audit(vec![audit("refused", Some(id)), named, audit("other", None)]).await.unwrap();

    let query = AuditQuery { limit: 10, ..AuditQuery::default() };
    let kinds = async |query: AuditQuery| -> Vec<String> {
        store.audit(query).await.unwrap().into_iter().map(|row| row.entry.kind).collect()
    };
    let project = Some("apollo".to_owned());
    assert_eq!(kinds(AuditQuery { project, ..query.clone() }).await, ["created", "refused", "denied"]);
    let actor = Some("user:eve".to_owned());
    assert_eq!(kinds(AuditQuery { actor, ..query.clone() }).await, ["denied"]);
    assert_eq!(kinds(AuditQuery { token, ..query.clone() }).await, ["denied"]);
    let other = Some(TokenId::from_bits(8));
    assert!(kinds(AuditQuery { token: other, ..query.clone() }).await.is_empty());
    let all = store.audit(query.clone()).await.unwrap();
    assert_eq!(all.iter().map(|row| row.entry.token).collect::<Vec<_>>(), [None, None, token, None]);
    assert_eq!(kinds(AuditQuery { from: Some(at(7)), ..query.clone() }).await, ["denied"]);
    assert_eq!(kinds(AuditQuery { to: Some(at(7)), ..query }).await, ["created", "refused", "other"]);
}

pub(crate) async fn a_setting_is_the_same_for_everybody(fixture: Fixture) {
    let stores = [fixture.open().await, fixture.open().await];
    let values: Vec<String> = (0..20).map(|number| format!("value {number}")).collect();
    let asked = values.iter().enumerate().map(|(n, value)| stores[n % 2].setting_or_insert("instance", value));
    let answers: Vec<String> = join_all(asked).await.into_iter().map(Result::unwrap).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert!(values.contains(&answers[0]));
}

pub(crate) async fn ping_and_close(fixture: Fixture) {
    let store = fixture.open().await;
    store.ping().await.unwrap();
    let clone = store.clone();
    store.close().await;
    assert!(matches!(clone.ping().await, Err(StoreError::Closed)));
    let refused = clone.commit(create(session_id(), 1)).await;
    assert!(matches!(refused, Err(CommitError::Store(StoreError::Closed))), "{refused:?}");
    clone.close().await;
}
