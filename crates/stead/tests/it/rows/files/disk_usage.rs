//! Disk usage per workspace and in total, and that unused data is removed.

use std::process::Command;

use serde_json::{Value, json};
use stead_testkit::{GitServer, TestServer};

use crate::rows::boxes::native;
use crate::rows::server;

fn gc(server: &TestServer, args: &[&str]) -> Value {
    let done = Command::new(env!("CARGO_BIN_EXE_stead"))
        .args(["--json", "gc"])
        .args(args)
        .env("STEAD_HOME", server.home())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

fn with_repositories() -> (TestServer, GitServer) {
    let (server, git) = (server(), GitServer::start());
    server.client().put("/platform", json!({"allowed_git_hosts": [git.host()]})).expect(200);
    for name in ["one", "two"] {
        git.repository(name, &[("a", "1\n"), ("d/b", "2\n")]);
    }
    native::build_init();
    server.agent_type("g", json!({"enabled": true, "provider": "native", "require_workspace": true}));
    (server, git)
}

#[track_caller]
fn session(server: &TestServer, url: &str) -> Value {
    let session = server.session(json!({"agent_type": "g", "task": {"context": {"repository_url": url}}}));
    assert_eq!(session["status"], "active", "{session}");
    session
}

fn id(session: &Value) -> &str {
    session["id"].as_str().unwrap()
}

#[test]
fn shared_data_is_counted_once_and_own_data_for_its_session() {
    let (server, git) = with_repositories();
    let sessions: Vec<Value> = (0..3).map(|_| session(&server, &git.url("one"))).collect();
    let before = server.client().get("/usage").expect(200);
    assert_eq!((&before["layers"]["count"], &before["layers"]["held_count"]), (&json!(1), &json!(1)), "{before}");
    assert_eq!(before["workspaces"].as_array().unwrap().len(), 3, "{before}");
    let layer = before["layers"]["bytes"].as_u64().unwrap();
    assert!(layer > 0 && before["workspaces"][0]["shared_bytes"].as_u64() == Some(layer), "{before}");
    let mirror = &before["mirrors"][0];
    assert_eq!((&mirror["url"], &mirror["held"]), (&json!(git.url("one")), &json!(true)), "{before}");

    let write = "head -c 6000000 /dev/urandom > big && sync big";
    assert_eq!(server.tool(&sessions[1], "bash", json!({"command": write}))["result"]["exit_code"], 0);
    let own = |session: &Value| {
        let usage = server.client().get(&format!("/sessions/{}/usage", id(session))).expect(200);
        usage["own_bytes"].as_u64().unwrap_or_else(|| panic!("{usage}"))
    };
    // An agent may read the disk usage of its own workspace only.
    let agent = server.client().with_token(sessions[1]["token"].as_str().unwrap());
    let answer = agent.get(&format!("/sessions/{}/usage", id(&sessions[1]))).expect(200);
    assert_eq!(answer["session"], sessions[1]["id"], "{answer}");
    agent.get(&format!("/sessions/{}/usage", id(&sessions[0]))).problem(404, "not_found");
    agent.get("/usage").problem(403, "forbidden");
    assert!(own(&sessions[1]) >= own(&sessions[0]) + 5_000_000, "{} {}", own(&sessions[1]), own(&sessions[0]));
    let after = server.client().get("/usage").expect(200);
    let total = |usage: &Value| usage["total_bytes"].as_u64().unwrap();
    assert!(total(&after) >= total(&before) + 5_000_000, "{after}");
    assert_eq!(after["layers"]["bytes"], before["layers"]["bytes"], "nothing was copied");
    server.client().delete(&format!("/sessions/{}", id(&sessions[1]))).expect(204);
    let closed = server.client().get(&format!("/sessions/{}/usage", id(&sessions[1]))).expect(200);
    assert_eq!(closed, Value::Null);
}

#[test]
fn what_no_live_session_needs_is_collected() {
    let (mut server, git) = with_repositories();
    let kept = session(&server, &git.url("one"));
    let closed = session(&server, &git.url("two"));
    server.client().delete(&format!("/sessions/{}", id(&closed))).expect(204);
    server.kill();
    let answer = gc(&server, &["--dry-run", "--grace", "0"]);
    assert_eq!(answer["mirrors"][0]["url"], json!(git.url("two")), "{answer}");
    assert_eq!(
        (answer["mirrors"].as_array().unwrap().len(), answer["layers"].as_array().unwrap().len()),
        (1, 1),
        "{answer}"
    );
    assert_eq!(gc(&server, &[])["mirrors"], json!([]), "used a moment ago");
    assert_eq!(gc(&server, &["--grace", "0"])["mirrors"].as_array().unwrap().len(), 1);
    assert_eq!(gc(&server, &["--grace", "0"])["mirrors"], json!([]));

    server.restart(None);
    let usage = server.client().get("/usage").expect(200);
    assert_eq!((usage["mirrors"].as_array().unwrap().len(), &usage["layers"]["count"]), (1, &json!(1)), "{usage}");
    let read = server.tool(&kept, "bash", json!({"command": "cat a d/b && git status --porcelain"}));
    assert_eq!(read["result"]["stdout"], "1\n2\n", "{read}");
    // Removed data is fetched again.
    session(&server, &git.url("two"));
}

#[test]
fn a_server_collects_mirrors_by_itself() {
    let (mut server, git) = with_repositories();
    let closed = session(&server, &git.url("two"));
    session(&server, &git.url("one"));
    server.client().delete(&format!("/sessions/{}", id(&closed))).expect(204);
    std::fs::write(server.home().join("stead.toml"), "[git]\nkeep_seconds = 0\n").unwrap();
    server.restart(None);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let usage = server.client().get("/usage").expect(200);
        let urls: Vec<&Value> = usage["mirrors"].as_array().unwrap().iter().map(|mirror| &mirror["url"]).collect();
        if urls == [&json!(git.url("one"))] {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{usage}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
