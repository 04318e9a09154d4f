//! Files as bytes, snapshots and clones, and what is left of them after a restart.

use std::time::Duration;

use serde_json::json;
use stead_core::event::{FileOperation, Parents};
use stead_core::tool::ToolName;
use stead_core::{SessionId, Status};
use stead_engine::ops::{self, Isolation};
use stead_fs::Content;

use crate::fixture::{Fixture, admin};

async fn put(fixture: &Fixture, id: SessionId, path: &str, bytes: &[u8]) {
    let (digest, length) = ops::put_blob(&fixture.engine, bytes).await.unwrap();
    let (path, blob) = (path.to_owned(), digest.to_string());
    let operation = FileOperation::Put { path, blob, bytes: length, if_match: None, parents: Parents::Make };
    ops::operate_files(&fixture.engine, &admin(), id, operation).await.unwrap();
}

async fn read(fixture: &Fixture, id: SessionId, path: &str) -> Option<Vec<u8>> {
    match ops::open_file(&fixture.engine, &admin(), id, path).await.ok()?.content {
        Content::Bytes(bytes) => Some(bytes.to_vec()),
        Content::Stream { .. } => panic!("a memory file is in memory"),
    }
}

async fn identical(fixture: &Fixture, id: SessionId) {
    assert_eq!(ops::replay(&fixture.engine, id).await.unwrap().difference, None);
}

async fn writer(fixture: &Fixture) -> SessionId {
    fixture.agent_type("writer", json!({"enabled": true})).await;
    fixture.session("writer").await
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
    let (snapshot, kept) = ops::create_snapshot(&fixture.engine, &admin(), id, Some("first".to_owned())).await.unwrap();
    assert!(kept.tree_hash.is_some());
    put(&fixture, id, "a", b"two").await;
    put(&fixture, id, "b", b"new").await;
    fixture.restart().await;
    ops::restore_snapshot(&fixture.engine, &admin(), id, snapshot).await.unwrap();
    assert_eq!(read(&fixture, id, "a").await.unwrap(), b"one");
    assert_eq!(read(&fixture, id, "b").await, None);
    let hash = ops::session(&fixture.engine, id).await.unwrap().session.unwrap().workspace.unwrap().tree_hash;
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
    let clones = ops::clone_session(&fixture.engine, &admin(), id, Isolation::Full, 3).await.unwrap();
    let clones: Vec<SessionId> = clones.into_iter().map(|state| state.session.unwrap().id).collect();
    for clone in &clones {
        let state = ops::wait_settled(&fixture.engine, *clone, Duration::from_secs(5)).await.unwrap();
        assert_eq!(state.session.unwrap().status, Status::Active);
        assert_eq!(read(&fixture, *clone, "a").await.unwrap(), b"one");
    }
    put(&fixture, clones[0], "a", b"mine").await;
    put(&fixture, id, "a", b"two").await;
    assert_eq!(read(&fixture, clones[1], "a").await.unwrap(), b"one");
    // The source goes first; the clones are still what they were, also after a restart.
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
    let clones = ops::clone_session(&fixture.engine, &admin(), id, Isolation::None, 2).await.unwrap();
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
    let patch = ops::diff(&fixture.engine, &admin(), id).await.unwrap();
    assert!(patch.text.contains("+one"), "{}", patch.text);
    fixture.restart().await;
    assert_eq!(ops::diff(&fixture.engine, &admin(), id).await.unwrap().text, patch.text);
}
