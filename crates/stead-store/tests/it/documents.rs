use futures::future::join_all;
use stead_store::{AuditOrder, AuditQuery, DocumentKind, DocumentWrite, WriteError, WriteMode};

use crate::fixture::{Fixture, at, audit};

pub(crate) fn write(id: &str, mode: WriteMode, expected_revision: Option<i64>) -> DocumentWrite {
    DocumentWrite {
        kind: DocumentKind::AgentType,
        id: id.to_owned(),
        body: format!("{{\"mode\":\"{mode:?}\"}}"),
        mode,
        expected_revision,
        at: at(0),
        audit: vec![audit("agent_type.written", None)],
        idempotency: None,
    }
}

const EVERYTHING: AuditQuery = AuditQuery {
    session: None,
    kind: None,
    actor: None,
    token: None,
    project: None,
    from: None,
    to: None,
    after: 0,
    before: None,
    order: AuditOrder::OldestFirst,
    limit: 1000,
};

pub(crate) async fn create_replace_and_delete(fixture: Fixture) {
    let store = fixture.open().await;
    let kind = DocumentKind::AgentType;
    assert!(matches!(store.write_document(write("a", WriteMode::Replace, None)).await, Err(WriteError::Missing)));
    let created = store.write_document(write("a", WriteMode::Create, None)).await.unwrap();
    assert_eq!(created.revision, 1);
    assert_eq!(store.document(kind, "a").await.unwrap(), Some(created));
    let again = store.write_document(write("a", WriteMode::Create, None)).await;
    assert!(matches!(again, Err(WriteError::Exists { revision: 1 })));

    let mut replace = write("a", WriteMode::Replace, Some(1));
    replace.at = at(5);
    let replaced = store.write_document(replace).await.unwrap();
    assert_eq!((replaced.revision, replaced.created_at, replaced.updated_at), (2, at(0), at(5)));
    let upserted = store.write_document(write("a", WriteMode::CreateOrReplace, None)).await.unwrap();
    assert_eq!(upserted.revision, 3);
    assert_eq!(store.document(DocumentKind::Project, "a").await.unwrap(), None);

    assert!(store.delete_document(kind, "a", vec![audit("agent_type.deleted", None)]).await.unwrap());
    assert!(!store.delete_document(kind, "a", vec![audit("agent_type.deleted", None)]).await.unwrap());
    assert_eq!(store.document(kind, "a").await.unwrap(), None);
    let kinds: Vec<_> = store.audit(EVERYTHING).await.unwrap().into_iter().map(|row| row.entry.kind).collect();
    let written = "agent_type.written";
    assert_eq!(kinds, [written, written, written, "agent_type.deleted"]);
}

pub(crate) async fn a_stale_revision_is_refused(fixture: Fixture) {
    let store = fixture.open().await;
    let missing = store.write_document(write("a", WriteMode::CreateOrReplace, Some(1))).await;
    assert!(matches!(missing, Err(WriteError::Stale { expected: 1, actual: None })));
    store.write_document(write("a", WriteMode::Create, None)).await.unwrap();
    store.write_document(write("a", WriteMode::Replace, Some(1))).await.unwrap();
    let stale = store.write_document(write("a", WriteMode::Replace, Some(1))).await;
    assert!(matches!(stale, Err(WriteError::Stale { expected: 1, actual: Some(2) })));
    let answers = join_all((0..10).map(|_| store.write_document(write("a", WriteMode::Replace, Some(2))))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
}

pub(crate) async fn a_revision_is_never_given_twice(fixture: Fixture) {
    let store = fixture.open().await;
    store.write_document(write("a", WriteMode::Create, None)).await.unwrap();
    store.delete_document(DocumentKind::AgentType, "a", vec![]).await.unwrap();
    let mut create = write("a", WriteMode::Create, None);
    create.at = at(9);
    let again = store.write_document(create).await.unwrap();
    assert!(again.revision > 1);
    assert_eq!(again.created_at, at(9));
    let stale = store.write_document(write("a", WriteMode::Replace, Some(1))).await;
    assert!(matches!(stale, Err(WriteError::Stale { expected: 1, .. })));
}

pub(crate) async fn documents_are_listed_in_pages(fixture: Fixture) {
    let store = fixture.open().await;
    // Both databases use byte order; a locale would sort the upper-case letter and the dash
    // differently.
    for id in ["b-1", "B", "b1", "a", "gone"] {
        store.write_document(write(id, WriteMode::Create, None)).await.unwrap();
    }
    store.delete_document(DocumentKind::AgentType, "gone", vec![]).await.unwrap();
    let list = async |after: Option<&str>, limit| -> Vec<String> {
        let page = store.documents(DocumentKind::AgentType, after, limit).await.unwrap();
        page.into_iter().map(|document| document.id).collect()
    };
    assert_eq!(list(None, 3).await, ["B", "a", "b-1"]);
    assert_eq!(list(Some("b-1"), 3).await, ["b1"]);
}

pub(crate) async fn concurrent_creates_make_one_document(fixture: Fixture) {
    let store = fixture.open().await;
    let answers = join_all((0..20).map(|_| store.write_document(write("a", WriteMode::Create, None)))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(WriteError::Exists { revision: 1 }))));
    assert_eq!(store.audit(EVERYTHING).await.unwrap().len(), 1);
}

pub(crate) async fn a_refused_write_leaves_no_audit(fixture: Fixture) {
    let store = fixture.open().await;
    store.write_document(write("a", WriteMode::Replace, None)).await.unwrap_err();
    assert_eq!(store.audit(EVERYTHING).await.unwrap(), []);
    assert_eq!(store.documents(DocumentKind::AgentType, None, 10).await.unwrap(), []);
}
