//! Raw files, snapshots and clones, and their state after a restart.

use std::time::Duration;

use serde_json::json;
use stead_core::event::{Existing, Parents};
use stead_core::tool::ToolName;
use stead_core::{SessionId, Status};
use stead_engine::OpError;
use stead_engine::ops::{self, CloneOrder, Isolation};
use stead_fs::Content;
use stead_providers::OpenFile;

use crate::fixture::{Fixture, admin};

async fn put(fixture: &Fixture, id: SessionId, path: &str, bytes: &[u8]) {
    let place =
        ops::PutTarget { path: path.to_owned(), if_match: None, existing: Existing::Replace, parents: Parents::Make };
    let put = ops::put_file(&fixture.engine, &admin(), id, place, bytes).await.unwrap();
    assert_eq!(put.bytes, bytes.len() as u64);
}

async fn read(fixture: &Fixture, id: SessionId, path: &str) -> Option<Vec<u8>> {
    match ops::open_path(&fixture.engine, &admin(), id, path).await.ok()? {
        ops::Opened::File(OpenFile { content: Content::Bytes(bytes), .. }) => Some(bytes.to_vec()),
        _ => panic!("a memory file is in memory"),
    }
}

async fn identical(fixture: &Fixture, id: SessionId) {
    assert_eq!(ops::replay(&fixture.engine, id).await.unwrap().difference, None);
}

async fn writer(fixture: &Fixture) -> SessionId {
    fixture.agent_type("writer", json!({"enabled": true})).await;
    fixture.session("writer").await
}

fn order(isolation: Isolation, count: u32) -> CloneOrder {
    CloneOrder { isolation, count, at: None }
}

#[tokio::test]
async fn bytes_of_any_kind_survive() {
    let mut fixture = Fixture::new().await;
    let id = writer(&fixture).await;
    let large: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
    put(&fixture, id, "bin/large", &large).await;
    put(&fixture, id, "empty", b"").await;
    fixture.restart().await;
    assert_eq!(read(&fixture, id, "bin/large").await.unwrap(), large);
    assert_eq!(read(&fixture, id, "empty").await.unwrap(), b"");
    identical(&fixture, id).await;
}

#[tokio::test]
async fn snapshots_outlive_a_restart() {
    let mut fixture = Fixture::new().await;
    let id = writer(&fixture).await;
    put(&fixture, id, "a", b"one").await;
    let (snapshot, kept) =
        ops::create_snapshot(&fixture.engine, &admin(), id, Some("first".to_owned()), None).await.unwrap();
    assert!(kept.tree_hash.is_some());
    put(&fixture, id, "a", b"two").await;
    put(&fixture, id, "b", b"new").await;
    fixture.restart().await;
    ops::restore_snapshot(&fixture.engine, &admin(), id, snapshot).await.unwrap();
    assert_eq!(read(&fixture, id, "a").await.unwrap(), b"one");
    assert_eq!(read(&fixture, id, "b").await, None);
    let hash = ops::session(&fixture.engine, id).await.unwrap().session.unwrap().workspace.clone().unwrap().tree_hash;
    assert_eq!(hash, kept.tree_hash);
    fixture.restart().await;
    assert_eq!(read(&fixture, id, "a").await.unwrap(), b"one");
    identical(&fixture, id).await;
}

#[tokio::test]
async fn full_clones_share_nothing_and_rebuild_alone() {
    let mut fixture = Fixture::new().await;
    let id = writer(&fixture).await;
    put(&fixture, id, "a", b"one").await;
    let clones = ops::clone_session(&fixture.engine, &admin(), id, order(Isolation::Full, 3), None).await.unwrap();
    let clones: Vec<SessionId> = clones.into_iter().map(|state| state.session.unwrap().id).collect();
    for clone in &clones {
        let state = ops::wait_settled(&fixture.engine, *clone, Duration::from_secs(5)).await.unwrap();
        assert_eq!(state.session.unwrap().status, Status::Active);
        assert_eq!(read(&fixture, *clone, "a").await.unwrap(), b"one");
    }
    put(&fixture, clones[0], "a", b"mine").await;
    put(&fixture, id, "a", b"two").await;
    assert_eq!(read(&fixture, clones[1], "a").await.unwrap(), b"one");
    // The source is closed first; the clones keep their files, also after a restart.
    ops::close_session(&fixture.engine, &admin(), id).await.unwrap();
    fixture.restart().await;
    assert_eq!(read(&fixture, clones[0], "a").await.unwrap(), b"mine");
    assert_eq!(read(&fixture, clones[1], "a").await.unwrap(), b"one");
    for clone in clones {
        identical(&fixture, clone).await;
    }
}

#[tokio::test]
async fn shared_workspaces_go_with_their_last_session() {
    let mut fixture = Fixture::new().await;
    let id = writer(&fixture).await;
    put(&fixture, id, "a", b"one").await;
    let clones = ops::clone_session(&fixture.engine, &admin(), id, order(Isolation::None, 2), None).await.unwrap();
    let clones: Vec<SessionId> = clones.into_iter().map(|state| state.session.unwrap().id).collect();
    for clone in &clones {
        ops::wait_settled(&fixture.engine, *clone, Duration::from_secs(5)).await.unwrap();
    }
    put(&fixture, clones[0], "a", b"two").await;
    assert_eq!(read(&fixture, id, "a").await.unwrap(), b"two");
    fixture.call(clones[1], ToolName::Write, json!({"path": "b", "content": "three"})).await.unwrap();
    ops::close_session(&fixture.engine, &admin(), id).await.unwrap();
    ops::close_session(&fixture.engine, &admin(), id).await.unwrap();
    assert_eq!(read(&fixture, clones[0], "b").await.unwrap(), b"three");
    fixture.restart().await;
    assert_eq!(read(&fixture, clones[0], "a").await.unwrap(), b"two");
    put(&fixture, clones[0], "c", b"four").await;
    assert_eq!(read(&fixture, clones[1], "c").await.unwrap(), b"four");
    for clone in [id, clones[0], clones[1]] {
        identical(&fixture, clone).await;
    }
    ops::close_session(&fixture.engine, &admin(), clones[0]).await.unwrap();
    ops::close_session(&fixture.engine, &admin(), clones[1]).await.unwrap();
}

#[tokio::test]
async fn diff_tells_what_changed_since_the_session_began() {
    let mut fixture = Fixture::new().await;
    let id = writer(&fixture).await;
    put(&fixture, id, "a.txt", b"one\n").await;
    let patch =
        ops::diff(&fixture.engine, &admin(), id, ops::DiffScope::WithoutIgnored, ops::DiffTime::Now).await.unwrap();
    assert!(patch.text.contains("+one"), "{}", patch.text);
    fixture.restart().await;
    assert_eq!(
        ops::diff(&fixture.engine, &admin(), id, ops::DiffScope::WithoutIgnored, ops::DiffTime::Now)
            .await
            .unwrap()
            .text,
        patch.text
    );
}

fn key(key: &str, body: u8) -> Option<ops::Idempotency> {
    Some(ops::Idempotency { key: key.to_owned(), body_hash: [body; 32] })
}

#[tokio::test]
async fn a_key_makes_one_snapshot_also_across_a_restart() {
    let mut fixture = Fixture::new().await;
    let id = writer(&fixture).await;
    let (first, _) = ops::create_snapshot(&fixture.engine, &admin(), id, None, key("k", 1)).await.unwrap();
    fixture.restart().await;
    let (again, _) = ops::create_snapshot(&fixture.engine, &admin(), id, None, key("k", 1)).await.unwrap();
    assert_eq!(again, first);
    let other = ops::create_snapshot(&fixture.engine, &admin(), id, None, key("k", 2)).await.unwrap_err();
    assert!(matches!(other, OpError::IdempotencyMismatch { .. }), "{other}");
    assert_eq!(ops::snapshots(&fixture.engine, id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_makes_one_set_of_clones() {
    let mut fixture = Fixture::new().await;
    let id = writer(&fixture).await;
    let ids = async |engine: &stead_engine::Engine, isolation| -> Vec<SessionId> {
        let clones = ops::clone_session(engine, &admin(), id, order(isolation, 3), key("k", 1)).await.unwrap();
        clones.into_iter().map(|state| state.session.unwrap().id).collect()
    };
    let first = ids(&fixture.engine, Isolation::Full).await;
    fixture.restart().await;
    assert_eq!(ids(&fixture.engine, Isolation::Full).await, first);
    assert_eq!(ops::snapshots(&fixture.engine, id).await.unwrap().len(), 1, "one snapshot for all of them");
}

#[tokio::test]
async fn clones_come_all_or_not_at_all() {
    let settings = stead_engine::Settings { max_sessions: 4, ..stead_engine::Settings::default() };
    let fixture = Fixture::with(settings).await;
    let id = writer(&fixture).await;
    let full = ops::clone_session(&fixture.engine, &admin(), id, order(Isolation::Full, 4), None).await.unwrap_err();
    assert!(matches!(full, OpError::Full { max: 4 }), "{full}");
    let live = ops::sessions(&fixture.engine, ops::SessionPage { limit: 10, ..ops::SessionPage::default() }).await;
    assert_eq!(live.unwrap().states.len(), 1);
    ops::clone_session(&fixture.engine, &admin(), id, order(Isolation::Full, 3), None).await.unwrap();
}

#[tokio::test]
async fn what_an_agent_may_not_do_with_tools_it_may_not_do_with_bytes() {
    let fixture = Fixture::new().await;
    fixture.agent_type("reader", json!({"enabled": true, "tools": ["read"]})).await;
    let id = fixture.session("reader").await;
    put(&fixture, id, "a", b"one").await;
    let agent = stead_core::Actor::Session { session: id };
    let place =
        ops::PutTarget { path: "a".to_owned(), if_match: None, existing: Existing::Replace, parents: Parents::Make };
    let refused = ops::put_file(&fixture.engine, &agent, id, place, &b"two"[..]).await.unwrap_err();
    assert!(matches!(refused, OpError::Rejected(_)), "{refused}");
    assert!(ops::open_path(&fixture.engine, &agent, id, "a").await.is_ok());
    assert!(ops::open_path(&fixture.engine, &agent, id, "").await.is_err());
    let refusals = fixture.kinds(id).await.into_iter().filter(|kind| kind == "ToolCallRefused").count();
    assert_eq!(refusals, 2, "each refusal is on record");
}
