//! Changes a journal directly in the database; `verify` names the first changed record.

use stead_core::SessionId;
use stead_store::{BreakReason, ChainVerdict, Store};

use crate::fixture::{Fixture, append, create, session_id};

pub(crate) async fn assert_intact(store: &Store, id: SessionId, events: u64) {
    let head = store.head(id).await.unwrap().unwrap().head_hash;
    assert_eq!(store.verify(id).await.unwrap(), ChainVerdict::Intact { events, head });
}

/// Asserts that a journal of six events, changed by `sql`, is broken at `seq`.
async fn check(fixture: &Fixture, sql: impl FnOnce(SessionId) -> String, seq: u64, reason: BreakReason) {
    let store = fixture.open().await;
    let id = session_id();
    store.commit(create(id, 4)).await.unwrap();
    store.commit(append(id, Some(4), 2)).await.unwrap();
    assert_intact(&store, id, 6).await;
    let sql = sql(id);
    fixture.tamper(sql.clone()).await;
    assert_eq!(store.verify(id).await.unwrap(), ChainVerdict::Broken { seq, reason }, "{sql}");
    store.close().await;
}

/// The journal is longer than a page.
pub(crate) async fn an_intact_journal_verifies(fixture: Fixture) {
    let store = fixture.open().await;
    let id = session_id();
    assert_eq!(store.verify(id).await.unwrap(), ChainVerdict::Absent);
    store.commit(create(id, 0)).await.unwrap();
    assert_intact(&store, id, 0).await;
    store.commit(append(id, Some(0), 1203)).await.unwrap();
    assert_intact(&store, id, 1203).await;
}

pub(crate) async fn edits_are_found(fixture: Fixture) {
    let edits = ["payload = '{}'", "kind = 'Other'", "at = at + 1", "hash = prev_hash"];
    for edit in edits {
        let sql = |id| format!("UPDATE events SET {edit} WHERE session = '{id}' AND seq = 3");
        check(&fixture, sql, 3, BreakReason::Altered).await;
    }
    let sql = |id| format!("UPDATE events SET prev_hash = hash WHERE session = '{id}' AND seq = 3");
    check(&fixture, sql, 3, BreakReason::NotLinked).await;
    let sql = |id| {
        format!(
            "UPDATE sessions SET head_hash = (SELECT hash FROM events WHERE session = '{id}' AND seq = 5) WHERE id = '{id}'"
        )
    };
    check(&fixture, sql, 6, BreakReason::WrongHead).await;
}

pub(crate) async fn deletions_are_found(fixture: Fixture) {
    let delete = |seq| move |id| format!("DELETE FROM events WHERE session = '{id}' AND seq = {seq}");
    check(&fixture, delete(1), 1, BreakReason::Missing { next: 2 }).await;
    check(&fixture, delete(4), 4, BreakReason::Missing { next: 5 }).await;
    // Closing the gap by renumbering does not help.
    let renumber = |id| {
        format!(
            "DELETE FROM events WHERE session = '{id}' AND seq = 3; \
             UPDATE events SET seq = 3 WHERE session = '{id}' AND seq = 4; \
             UPDATE events SET seq = 4 WHERE session = '{id}' AND seq = 5; \
             UPDATE events SET seq = 5 WHERE session = '{id}' AND seq = 6; \
             UPDATE sessions SET seq = 5 WHERE id = '{id}'"
        )
    };
    check(&fixture, renumber, 3, BreakReason::NotLinked).await;
}

pub(crate) async fn reorderings_are_found(fixture: Fixture) {
    let swap = |id| {
        format!(
            "UPDATE events SET seq = 99 WHERE session = '{id}' AND seq = 2; \
             UPDATE events SET seq = 2 WHERE session = '{id}' AND seq = 3; \
             UPDATE events SET seq = 3 WHERE session = '{id}' AND seq = 99"
        )
    };
    check(&fixture, swap, 2, BreakReason::NotLinked).await;
}

pub(crate) async fn a_truncated_tail_is_found(fixture: Fixture) {
    let cut = |id| format!("DELETE FROM events WHERE session = '{id}' AND seq > 4");
    check(&fixture, cut, 5, BreakReason::Truncated).await;
    let all = |id| format!("DELETE FROM events WHERE session = '{id}'");
    check(&fixture, all, 1, BreakReason::Truncated).await;
}

pub(crate) async fn a_spliced_journal_is_found(fixture: Fixture) {
    let store = fixture.open().await;
    let (victim, donor) = (session_id(), session_id());
    store.commit(create(victim, 3)).await.unwrap();
    store.commit(create(donor, 3)).await.unwrap();
    fixture
        .tamper(format!(
            "DELETE FROM events WHERE session = '{victim}'; \
             UPDATE events SET session = '{victim}' WHERE session = '{donor}'; \
             UPDATE sessions SET head_hash = (SELECT head_hash FROM sessions WHERE id = '{donor}') WHERE id = '{victim}'"
        ))
        .await;
    let expected = ChainVerdict::Broken { seq: 1, reason: BreakReason::ForeignGenesis };
    assert_eq!(store.verify(victim).await.unwrap(), expected);
}

pub(crate) async fn records_beyond_the_head_are_found(fixture: Fixture) {
    let add = |id| {
        format!(
            "INSERT INTO events (session, seq, at, kind, payload, prev_hash, hash) \
             SELECT session, 7, at, kind, payload, prev_hash, hash FROM events WHERE session = '{id}' AND seq = 6"
        )
    };
    check(&fixture, add, 7, BreakReason::BeyondHead).await;
}
