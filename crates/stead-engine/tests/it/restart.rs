//! State that survives a stop.

use serde_json::json;
use stead_core::tool::ToolName;
use stead_core::{Status, session::WorkspaceStatus};
use stead_engine::ops;

use crate::fixture::Fixture;

#[tokio::test]
async fn files_and_state_are_the_fold_of_the_journal() {
    let mut fixture = Fixture::new().await;
    fixture.agent_type("writer", json!({"enabled": true})).await;
    let id = fixture.session("writer").await;
    let large = "x".repeat(40_000);
    for content in ["one", "two", large.as_str()] {
        let arguments = json!({"path": "d/a.txt", "content": content, "mode": "overwrite"});
        fixture.call(id, ToolName::Write, arguments).await.unwrap();
    }
    fixture.call(id, ToolName::Write, json!({"path": "gone.txt", "content": "x"})).await.unwrap();
    fixture.call(id, ToolName::Rm, json!({"path": "gone.txt"})).await.unwrap();
    let before = ops::session(&fixture.engine, id).await.unwrap().session.unwrap().workspace.clone().unwrap();

    fixture.restart().await;

    let session = ops::session(&fixture.engine, id).await.unwrap().session.unwrap();
    assert_eq!(session.status, Status::Active);
    let after = session.workspace.clone().unwrap();
    assert_eq!((after.status, &after.tree_hash), (WorkspaceStatus::Ready, &before.tree_hash));
    let read = fixture.call(id, ToolName::Read, json!({"path": "d/a.txt"})).await.unwrap();
    assert_eq!(read.answer.result.unwrap()["content"], large);
    let listed = fixture.call(id, ToolName::Ls, json!({"path": "d"})).await.unwrap();
    assert_eq!(listed.answer.result.unwrap()["entries"][0]["version"], 3);
    let gone = fixture.call(id, ToolName::Read, json!({"path": "gone.txt"})).await.unwrap();
    assert_eq!(gone.answer.error.unwrap().code, "not_found");
    assert_eq!(ops::replay(&fixture.engine, id).await.unwrap().difference, None);
}
