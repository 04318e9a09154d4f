//! A session from its first event to its last.

use std::time::Duration;

use serde_json::json;
use stead_core::tool::ToolName;
use stead_core::{Rejection, Status};
use stead_engine::{OpError, ops};

use crate::fixture::{Fixture, admin};

#[tokio::test]
async fn a_session_lives_and_ends_and_its_journal_tells() {
    let fixture = Fixture::new().await;
    fixture.agent_type("writer", json!({"enabled": true})).await;
    let id = fixture.session("writer").await;
    fixture.call(id, ToolName::Write, json!({"path": "a.txt", "content": "hello"})).await.unwrap();
    let read = fixture.call(id, ToolName::Read, json!({"path": "a.txt"})).await.unwrap();
    assert_eq!(read.answer.result.unwrap()["content"], "hello");
    let report = ops::replay(&fixture.engine, id).await.unwrap();
    assert_eq!(report.difference, None);
    let closed = ops::close_session(&fixture.engine, &admin(), id).await.unwrap().session.unwrap();
    assert_eq!(closed.status, Status::Closed);
    ops::close_session(&fixture.engine, &admin(), id).await.unwrap();
    let kinds = fixture.kinds(id).await;
    let expected = [
        "SessionCreated",
        "ProvisionStarted",
        "WorkspaceCreated",
        "WorkspaceReady",
        "SessionActivated",
        "ToolCallStarted",
        "ToolCallFinished",
        "ToolCallStarted",
        "ToolCallFinished",
        "CloseRequested",
        "RemovalStarted",
        "WorkspaceRemoved",
        "SessionClosed",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(ops::replay(&fixture.engine, id).await.unwrap().difference, None);
}

#[tokio::test]
async fn a_broken_provider_falls_back_then_degrades_then_fails() {
    let fixture = Fixture::new().await;
    fixture.agent_type("fallback", json!({"enabled": true, "provider": "native", "fallback_provider": "memory"})).await;
    fixture.agent_type("degraded", json!({"enabled": true, "provider": "native"})).await;
    fixture.agent_type("required", json!({"enabled": true, "provider": "native", "require_workspace": true})).await;

    let id = fixture.session("fallback").await;
    let session = ops::session(&fixture.engine, id).await.unwrap().session.unwrap();
    assert_eq!((session.status, session.degraded), (Status::Active, false));
    assert_eq!(session.workspace.as_ref().unwrap().failures.len(), 1);
    assert_eq!(session.warnings[0].code, "provider_fallback");

    let id = fixture.session("degraded").await;
    let session = ops::session(&fixture.engine, id).await.unwrap().session.unwrap();
    assert_eq!((session.status, session.degraded), (Status::Active, true));
    assert_eq!(session.warnings[0].code, "workspace_unavailable");
    let refused = fixture.call(id, ToolName::Ls, json!({})).await.unwrap_err();
    assert!(matches!(refused, OpError::Rejected(Rejection::NoWorkspace { .. })), "{refused}");

    let id = fixture.session("required").await;
    let session = ops::session(&fixture.engine, id).await.unwrap().session.unwrap();
    assert_eq!(session.status, Status::Failed);
    assert_eq!(session.failure.as_ref().unwrap().code, "workspace_unavailable");

    // A provider that is not configured is refused.
    fixture.agent_type("absent", json!({"enabled": true, "provider": "podman", "fallback_provider": "memory"})).await;
    let refused = fixture.try_create(json!({"agent_type": "absent"})).await.unwrap_err();
    assert!(matches!(refused, OpError::Rejected(Rejection::ProviderNotConfigured { .. })), "{refused}");
}

#[tokio::test]
async fn a_session_past_its_time_closes_itself() {
    let fixture = Fixture::new().await;
    fixture.agent_type("brief", json!({"enabled": true, "ttl_seconds": 1})).await;
    fixture.agent_type("idle", json!({"enabled": true, "idle_seconds": 1})).await;
    for (agent_type, reason) in [("brief", "expired"), ("idle", "idle")] {
        let id = fixture.session(agent_type).await;
        let mut status = Status::Active;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let session = ops::session(&fixture.engine, id).await.unwrap().session.unwrap();
            status = session.status;
            if status == Status::Closed {
                assert_eq!(session.close_reason.unwrap().as_str(), reason);
                break;
            }
        }
        assert_eq!(status, Status::Closed, "{agent_type}");
    }
}
