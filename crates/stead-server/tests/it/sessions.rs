use serde_json::{Value, json};
use stead_engine::Settings;
use stead_server::ServerConfig;

use crate::harness::TestServer;

#[tokio::test]
async fn a_session_from_plan_to_close() {
    let server = TestServer::start().await;
    server.declare("t").await;
    let task = json!({"id": "T-1", "context": {"pull_request_number": 42, "base_branch": "main"}});
    let request = json!({"agent_type": "t", "task": task, "metadata": {"k": [1]}});
    let plan = server.post("/api/v1/sessions:plan", request.clone()).await.json();
    assert_eq!(plan["workspace"]["policy"]["policy"], "empty", "{plan}");
    assert_eq!(
        plan["workspace"]["policy"]["chain"],
        json!({"task": null, "role": null, "project": null, "platform": null})
    );
    assert_eq!(plan["workspace"]["capabilities"], json!({"ok": true, "needs": ["host", "guest"]}));
    assert_eq!(plan["workspace"]["plan"]["env"]["STEAD_TASK_ID"], "T-1");
    assert_eq!(server.get("/api/v1/sessions").await.json()["items"], json!([]), "a plan makes nothing");

    let created = server.post("/api/v1/sessions?wait=10", request).await;
    let session = created.json();
    let path = format!("/api/v1/sessions/{}", session["id"].as_str().unwrap());
    assert_eq!((created.status, created.header("location")), (201, Some(path.as_str())));
    assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(false)));
    let workspace = &session["workspace"];
    assert_eq!((&workspace["status"], &workspace["root"]), (&json!("ready"), &json!("/workspace")));
    assert_eq!(workspace["metadata"], json!({"pull_request_number": 42, "base_branch": "main"}));
    assert_eq!(session["metadata"], json!({"k": [1]}));
    assert_eq!(session["content"], json!({"active": null, "pending": null, "armed": null, "sync_failure": null}));

    let write =
        server.post(&format!("{path}/tools/write_file"), json!({"path": "a.txt", "content": "hello\n"})).await.json();
    assert_eq!((&write["ok"], &write["tool"]), (&json!(true), &json!("write")), "{write}");
    let read = server.post(&format!("{path}/tools/read"), json!({"file_path": "a.txt"})).await.json();
    assert!(read["result"]["content"].as_str().unwrap().contains("hello"), "{read}");
    let missing = server.post(&format!("{path}/tools/read"), json!({"path": "none"})).await;
    assert_eq!((missing.status, &missing.json()["ok"]), (200, &json!(false)));
    assert!(missing.json()["error"]["code"].is_string());

    let shown = server.get(&path).await.json();
    assert_eq!(shown["token"], Value::Null, "the token is given once");
    let fold = server.get(&format!("{path}/state")).await.json();
    let expected = stead_core_hash(&json!({"seq": fold["seq"], "session": fold["state"]}));
    assert_eq!(fold["state_hash"], expected, "anyone can recompute the hash");
    let replay = server.get(&format!("{path}/replay")).await.json();
    assert_eq!((&replay["identical"], &replay["state_hash"]), (&json!(true), &fold["state_hash"]));

    for _ in 0..2 {
        let closed = server.ask("DELETE", &path).send().await;
        assert_eq!((closed.status, closed.body.as_str()), (204, ""));
    }
    let after = server.post(&format!("{path}/tools/ls"), json!({})).await;
    assert_eq!((after.status, after.code().as_str()), (409, "session_not_active"));
    assert!(after.json()["detail"].as_str().unwrap().contains("closed"));
    assert_eq!(server.get(&path).await.json()["close_reason"], "requested");
}

fn stead_core_hash(value: &Value) -> Value {
    stead_core::canonical::hash(value).into()
}

#[tokio::test]
async fn the_gate_says_which_wall_it_was() {
    let server = TestServer::start().await;
    server.post("/api/v1/agent-types", json!({"id": "off"})).await;
    let narrow =
        json!({"id": "narrow", "workspace": {"enabled": true, "provider": "memory", "tools": ["read", "grep"]}});
    server.post("/api/v1/agent-types", narrow).await;
    let off = server.session("off").await;
    assert_eq!(off["workspace"], Value::Null);
    let none = server.post(&format!("/api/v1/sessions/{}/tools/ls", off["id"].as_str().unwrap()), json!({})).await;
    assert_eq!((none.status, none.code().as_str()), (404, "no_workspace"));
    let narrow = server.session("narrow").await;
    let path = format!("/api/v1/sessions/{}/tools", narrow["id"].as_str().unwrap());
    let banned = server.post(&format!("{path}/bash"), json!({"command": "true"})).await;
    assert_eq!((banned.status, banned.code().as_str()), (403, "tool_not_enabled"));
    assert_eq!(banned.json()["detail"], "Tool 'bash' is not enabled for this agent type");
    let alias = server.post(&format!("{path}/shell_execute"), json!({"command": "true"})).await;
    assert_eq!(alias.status, 403);
    let unknown = server.post(&format!("{path}/ssh"), json!({})).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "not_found"));
    assert!(unknown.json()["detail"].as_str().unwrap().contains("valid: bash, read"), "{unknown:?}");
    assert_eq!(server.post(&format!("{path}/read"), json!([])).await.status, 400);
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_before_anything_is_made() {
    let server = TestServer::start().await;
    let missing = server.post("/api/v1/sessions", json!({"agent_type": "none"})).await;
    assert_eq!((missing.status, missing.code().as_str()), (404, "not_found"));
    server.declare("t").await;
    let policy = json!({"agent_type": "t", "task": {"workspace_policy": {"type": "mount", "host_path": "/srv"}}});
    let refused = server.post("/api/v1/sessions", policy).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "policy_incompatible"), "{refused:?}");
    assert_eq!(server.get("/api/v1/sessions").await.json()["items"], json!([]));
}

#[tokio::test]
async fn sessions_are_listed_newest_first_and_filtered() {
    let server = TestServer::start().await;
    for id in ["a", "b"] {
        server.declare(id).await;
    }
    let mut ids = Vec::new();
    for agent_type in ["a", "b", "a"] {
        ids.push(server.session(agent_type).await["id"].clone());
    }
    let listed = async |query: &str| {
        let page = server.get(&format!("/api/v1/sessions{query}")).await.json();
        (
            page["items"].as_array().unwrap().iter().map(|s| s["id"].clone()).collect::<Vec<_>>(),
            page["next_cursor"].clone(),
        )
    };
    let (first, cursor) = listed("?limit=2").await;
    assert_eq!((&first, &cursor), (&vec![ids[2].clone(), ids[1].clone()], &ids[1]));
    let (rest, cursor) = listed(&format!("?limit=2&cursor={}", cursor.as_str().unwrap())).await;
    assert_eq!((rest, cursor), (vec![ids[0].clone()], Value::Null));
    assert_eq!(listed("?agent_type=b").await.0, vec![ids[1].clone()]);
    assert_eq!(listed("?status=closed").await.0, Vec::<Value>::new());
}

/// This server has no default limits, so a workspace has none of its own.
#[tokio::test]
async fn t3_a_workspace_without_a_limit_that_a_quota_needs_is_refused() {
    let server = TestServer::start().await;
    server.declare("t").await;
    server.put("/api/v1/projects/web", json!({})).await;
    assert_eq!(server.put("/api/v1/projects/web/quotas", json!({"memory": "8G"})).await.status, 200);
    let refused = server.post("/api/v1/sessions", json!({"agent_type": "t", "project": "web"})).await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "limit_required"));
    let problem = refused.json();
    assert!(problem["detail"].as_str().unwrap().contains("workspace.resource_limits"), "{problem}");
    assert_eq!(problem["parameters"], json!({"scope": "project/web", "quantity": "memory"}));
    server.session("t").await;
}

#[tokio::test]
async fn a_full_server_says_when_to_come_back() {
    let settings = Settings { max_sessions: 1, ..Settings::default() };
    let server = TestServer::start_with(ServerConfig::default(), settings).await;
    server.declare("t").await;
    server.session("t").await;
    let full = server.post("/api/v1/sessions", json!({"agent_type": "t"})).await;
    assert_eq!((full.status, full.code().as_str()), (429, "capacity"));
    assert!(full.header("retry-after").is_some());
}
