//! S: the life of a session, seen by its client.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer};

use crate::rows::{server, server_with};

fn memory(server: &TestServer) {
    server.agent_type("a", json!({"enabled": true, "provider": "memory", "workspace_policy": "empty"}));
}

fn status(server: &TestServer, id: &str) -> Value {
    server.client().get(&format!("/sessions/{id}")).expect(200)["status"].clone()
}

/// Waits, with a bound, until a session has this status.
fn wait_for(server: &TestServer, id: &str, wanted: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let session = server.client().get(&format!("/sessions/{id}")).expect(200);
        if session["status"] == wanted {
            return session;
        }
        assert!(Instant::now() < deadline, "never {wanted}: {session}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn s1_provisioning_until_ready() {
    let server = server_with(ServerOptions::default().failpoints("provision.create=sleep(1500)"));
    memory(&server);
    let session = server.client().post("/sessions", json!({"agent_type": "a"})).expect(201);
    assert_eq!(session["status"], "provisioning");
    let id = session["id"].as_str().unwrap();
    let detail =
        server.client().post(&format!("/sessions/{id}/tools/ls"), json!({})).problem(409, "session_not_active");
    assert!(detail.contains("provisioning"), "{detail}");
    let session = wait_for(&server, id, "active");
    assert_eq!(session["workspace"]["status"], "ready");
    server.tool(&session, "ls", json!({}));
    // With `wait`, the creation returns the settled session.
    assert_eq!(server.session(json!({"agent_type": "a"}))["status"], "active");
}

#[test]
fn s4_fallback_once_then_degraded() {
    // Neither a reachable Podman nor a `stead-init` next to this binary.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = folder.path().join("stead");
    std::fs::hard_link(env!("CARGO_BIN_EXE_stead"), &alone).unwrap();
    let options = ServerOptions::default().env("PODMAN_BASE_URL", "unix:///nonexistent/podman.sock");
    let server = TestServer::start_with(alone.to_str().unwrap(), options);
    server.agent_type("fallback", json!({"enabled": true, "provider": "podman", "fallback_provider": "memory"}));
    server.agent_type("degraded", json!({"enabled": true, "provider": "podman", "fallback_provider": "native"}));
    server.agent_type("required", json!({"enabled": true, "provider": "podman", "require_workspace": true}));
    let session = server.session(json!({"agent_type": "fallback"}));
    assert_eq!((&session["status"], &session["workspace"]["provider"]), (&json!("active"), &json!("memory")));
    assert!(session["workspace"]["failures"].to_string().contains("podman"), "{session}");
    let session = server.session(json!({"agent_type": "degraded"}));
    assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(true)));
    let warnings = session["warnings"].to_string();
    assert!(warnings.contains("podman: ") && warnings.contains("native: "), "{warnings}");
    let id = session["id"].as_str().unwrap();
    server.client().post(&format!("/sessions/{id}/tools/ls"), json!({})).problem(404, "no_workspace");
    let session = server.session(json!({"agent_type": "required"}));
    assert_eq!(session["status"], "failed");
    assert!(session["failure"].to_string().contains("podman"), "{session}");
}

#[test]
fn s6_close_is_idempotent_and_final() {
    let server = server();
    memory(&server);
    let session = server.session(json!({"agent_type": "a"}));
    let id = session["id"].as_str().unwrap();
    server.tool(&session, "write", json!({"path": "a", "content": "x"}));
    assert_eq!(server.client().delete(&format!("/sessions/{id}")).status, 204);
    assert_eq!(server.client().delete(&format!("/sessions/{id}")).status, 204);
    assert_eq!(status(&server, id), "closed");
    let detail =
        server.client().post(&format!("/sessions/{id}/tools/ls"), json!({})).problem(409, "session_not_active");
    assert!(detail.contains("closed"), "{detail}");
    server.client().delete("/sessions/ses_00000000000000000000000000").problem(404, "not_found");
}

#[test]
fn s6_close_in_the_middle_of_provisioning() {
    let server = server_with(ServerOptions::default().failpoints("provision.create=sleep(600)"));
    memory(&server);
    let session = server.client().post("/sessions", json!({"agent_type": "a"})).expect(201);
    let id = session["id"].as_str().unwrap();
    assert_eq!(server.client().delete(&format!("/sessions/{id}")).status, 204);
    assert_eq!(status(&server, id), "closed");
}

#[test]
fn s6_ttl_and_idle() {
    let server = server();
    server.agent_type("brief", json!({"enabled": true, "provider": "memory", "ttl_seconds": 1}));
    server.agent_type("idle", json!({"enabled": true, "provider": "memory", "idle_seconds": 2}));
    let brief = server.session(json!({"agent_type": "brief"}));
    let idle = server.session(json!({"agent_type": "idle"}));
    let closed = wait_for(&server, brief["id"].as_str().unwrap(), "closed");
    assert_eq!(closed["close_reason"], "expired");
    // Calls keep the session alive past its idle time.
    let working = Instant::now();
    while working.elapsed() < Duration::from_millis(2500) {
        server.tool(&idle, "ls", json!({}));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(status(&server, idle["id"].as_str().unwrap()), "active");
    let closed = wait_for(&server, idle["id"].as_str().unwrap(), "closed");
    assert_eq!(closed["close_reason"], "idle");
}

#[test]
fn s8_capacity() {
    let server = server_with(ServerOptions::default().env("WORKSPACE_MAX_CONCURRENT", "3"));
    memory(&server);
    let replies: Vec<_> = std::thread::scope(|scope| {
        let create = || server.client().post("/sessions?wait=10", json!({"agent_type": "a"}));
        let threads: Vec<_> = (0..12).map(|_| scope.spawn(create)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let made: Vec<&stead_testkit::Reply> = replies.iter().filter(|reply| reply.status == 201).collect();
    assert_eq!(made.len(), 3);
    for refused in replies.iter().filter(|reply| reply.status != 201) {
        refused.problem(429, "capacity");
        assert!(refused.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok()));
    }
    let items = server.client().get("/sessions?limit=100").expect(200)["items"].as_array().unwrap().len();
    assert_eq!(items, 3, "a refused create leaves nothing");
    let id = made[0].json()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.client().delete(&format!("/sessions/{id}")).status, 204);
    server.session(json!({"agent_type": "a"}));
}

#[test]
fn a_session_token_opens_its_session_and_nothing_else() {
    let server = server();
    memory(&server);
    let (mine, other) = (server.session(json!({"agent_type": "a"})), server.session(json!({"agent_type": "a"})));
    let agent = server.client().with_token(mine["token"].as_str().unwrap());
    let (mine, other) = (mine["id"].as_str().unwrap(), other["id"].as_str().unwrap());
    agent.get(&format!("/sessions/{mine}")).expect(200);
    agent.get(&format!("/sessions/{mine}/state")).expect(200);
    agent.post(&format!("/sessions/{mine}/tools/ls"), json!({})).expect(200);
    agent.get(&format!("/sessions/{other}")).problem(404, "not_found");
    agent.post(&format!("/sessions/{other}/tools/ls"), json!({})).problem(404, "not_found");
    agent.get("/sessions").problem(403, "forbidden");
    agent.delete(&format!("/sessions/{mine}")).problem(403, "forbidden");
    agent.post("/sessions", json!({"agent_type": "a"})).problem(403, "forbidden");
    agent.get("/audit").problem(403, "forbidden");
    server.client().without_token().get(&format!("/sessions/{mine}")).problem(401, "unauthorized");
    // The token is shown only once, at creation.
    assert_eq!(server.client().get(&format!("/sessions/{mine}")).expect(200).get("token"), None);
}

#[test]
fn events_page_and_state_agree() {
    let server = server();
    memory(&server);
    let session = server.session(json!({"agent_type": "a"}));
    for number in 0..5 {
        server.tool(&session, "write", json!({"path": format!("f{number}"), "content": "x"}));
    }
    let id = session["id"].as_str().unwrap();
    let page = |cursor: &str| {
        let path = format!("/sessions/{id}/events?limit=4{cursor}");
        server.client().send("GET", &path, &[("accept", "application/json")], None).expect(200)
    };
    let (mut cursor, mut seqs) = (String::new(), Vec::new());
    loop {
        let items = page(&cursor);
        seqs.extend(items["items"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()));
        match items["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let state = server.client().get(&format!("/sessions/{id}/state")).expect(200);
    let expected: Vec<u64> = (1..=state["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, expected);
    let replay = server.client().get(&format!("/sessions/{id}/replay")).expect(200);
    assert_eq!(replay["state_hash"], state["state_hash"]);
}

#[test]
fn metrics_count_what_there_is() {
    let server = server();
    memory(&server);
    let session = server.session(json!({"agent_type": "a"}));
    server.tool(&session, "ls", json!({}));
    server.client().without_token().get("/metrics").problem(401, "unauthorized");
    let metrics = server.client().get("/metrics");
    assert_eq!(metrics.status, 200);
    for line in [
        r#"stead_sessions{status="active"} 1"#,
        r#"stead_sessions{status="failed"} 0"#,
        r#"stead_tool_calls_total{tool="ls","#,
        "stead_http_requests_total{",
    ] {
        assert!(metrics.text.contains(line), "{line} is not in\n{}", metrics.text);
    }
}
