use serde_json::{Value, json};

use crate::harness::TestServer;

/// Every field of a workspace config, none with its default value.
fn full_config() -> Value {
    json!({
        "enabled": true, "provider": "memory", "fallback_provider": "podman",
        "repo_source": {"type": "fixed", "url": "https://git.example/a/b.git", "branch": "main"},
        "workspace_policy": {"type": "git", "url": "https://git.example/a/b.git", "ref": "v1", "depth": 1},
        "tools": ["bash", "read"], "resource_limits": {"cpu": "500m", "memory": "4G"},
        "checkout_on_start": false, "base_image": "debian:13", "setup_commands": ["true"],
        "setup_timeout_seconds": 5, "on_setup_failure": "fail", "require_workspace": true,
        "setup_cache": {"files": ["a.lock"]}, "setup_user": "root",
        "mounts": [{"host_path": "/srv/a", "mount_path": "a", "include_glob": ["*.py"], "exclude_glob": ["x"], "max_bytes": 1, "follow_symlinks": true}],
        "network": {"setup": {"mode": "full", "domains": []}, "agent": {"mode": "allow", "domains": ["a.example"]}},
        "limits": {"write_chars": 1, "path_depth": 2, "segment_chars": 3, "output_bytes": 1024, "command_chars": 5},
        "git": {"push_branches": [], "allow_force_push": true, "submodules": true, "lfs": false},
        "rewind": {"points": "free", "keep": 7}, "ttl_seconds": 60, "idle_seconds": 30, "warm_pool": 1,
    })
}

#[tokio::test]
async fn a_workspace_config_reads_back_as_it_was_given_and_is_off_by_default() {
    let server = TestServer::start().await;
    let answer = server
        .post("/api/v1/agent-types", json!({"id": "t", "capabilities": {"sandbox": {"workspace_provider": "guest"}}}))
        .await;
    assert_eq!((answer.status, answer.header("location")), (201, Some("/api/v1/agent-types/t")));
    assert_eq!(answer.json()["capabilities"], json!({"sandbox": {"workspace_provider": ["guest"]}}));
    let path = "/api/v1/agent-types/t/workspace-config";
    let default = server.get(path).await.json();
    assert_eq!(
        (&default["enabled"], &default["provider"], &default["tools"]),
        (&json!(false), &Value::Null, &Value::Null)
    );
    assert_eq!(default.as_object().unwrap().len(), full_config().as_object().unwrap().len());
    assert_eq!(server.put(path, full_config()).await.json(), full_config());
    assert_eq!(server.get(path).await.json(), full_config());
    let wrong = server.put(path, json!({"tools": ["bash", "ssh"]})).await;
    assert_eq!(wrong.status, 400);
    assert!(wrong.json()["detail"].as_str().unwrap().contains("ssh (valid: bash, read"), "{wrong:?}");
    assert_eq!(server.get(path).await.json(), full_config());
    assert_eq!(server.put("/api/v1/agent-types/none/workspace-config", json!({})).await.status, 404);
}

#[tokio::test]
async fn agent_types_are_listed_in_pages_and_deleted_once() {
    let server = TestServer::start().await;
    for id in ["c", "a", "b"] {
        server.declare(id).await;
    }
    let first = server.get("/api/v1/agent-types?limit=2").await.json();
    let ids = |page: &Value| page["items"].as_array().unwrap().iter().map(|t| t["id"].clone()).collect::<Vec<_>>();
    assert_eq!((ids(&first), &first["next_cursor"]), (vec![json!("a"), json!("b")], &json!("b")));
    let second = server.get("/api/v1/agent-types?limit=2&cursor=b").await.json();
    assert_eq!((ids(&second), &second["next_cursor"]), (vec![json!("c")], &Value::Null));
    let conflict = server.post("/api/v1/agent-types", json!({"id": "a"})).await;
    assert_eq!((conflict.status, conflict.code().as_str()), (409, "conflict"));
    server.session("a").await;
    assert_eq!(server.ask("DELETE", "/api/v1/agent-types/a").send().await.status, 409);
    assert_eq!(server.ask("DELETE", "/api/v1/agent-types/b").send().await.status, 204);
    assert_eq!(server.ask("DELETE", "/api/v1/agent-types/b").send().await.status, 404);
}

#[tokio::test]
async fn projects_and_the_platform_are_set_whole() {
    let server = TestServer::start().await;
    assert_eq!(server.get("/api/v1/projects/p").await.status, 404);
    let project = json!({"workspace_policy": "empty", "repository_url": null, "default_branch": "main", "env": {"A": "1"}, "network": null});
    assert_eq!(server.put("/api/v1/projects/p", project.clone()).await.json(), project);
    assert_eq!(server.get("/api/v1/projects/p").await.json(), project);
    assert_eq!(server.get("/api/v1/platform").await.json()["allowed_host_roots"], json!([]));
    let platform = server.put("/api/v1/platform", json!({"allowed_host_roots": ["/srv"]})).await;
    assert_eq!((platform.status, &platform.json()["allowed_host_roots"]), (200, &json!(["/srv"])));
    assert_eq!(server.put("/api/v1/platform", json!({"allowed_host_roots": ["srv"]})).await.status, 400);
}

#[tokio::test]
async fn tools_providers_pool_metrics_and_audit_are_listed() {
    let server = TestServer::start().await;
    let tools = server.get("/api/v1/tools").await.json();
    assert_eq!(tools["items"].as_array().unwrap().len(), 19);
    let providers = server.get("/api/v1/providers").await.json();
    assert_eq!((&providers["items"][0]["name"], &providers["items"][0]["healthy"]), (&json!("memory"), &json!(true)));
    assert_eq!(server.get("/api/v1/pool").await.json()["items"], json!([]));
    server.declare("t").await;
    server.session("t").await;
    let audit = server.get("/api/v1/audit?limit=1").await.json();
    let next = audit["next_cursor"].as_str().unwrap();
    assert_eq!(audit["items"][0]["actor"], "admin:tests");
    let rest = server.get(&format!("/api/v1/audit?cursor={next}")).await.json();
    assert!(!rest["items"].as_array().unwrap().is_empty(), "{rest}");
    let metrics = server.get("/metrics").await;
    assert!(
        metrics.body.contains(r#"stead_http_requests_total{route="/api/v1/tools",method="GET",status="200"}"#),
        "{metrics:?}"
    );
}
