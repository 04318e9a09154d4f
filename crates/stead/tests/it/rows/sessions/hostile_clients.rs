//! A hostile or unlucky client, disk or clock must not harm its own session or other sessions.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::server;

fn memory(server: &TestServer) {
    server.agent_type("a", json!({"enabled": true, "provider": "memory", "workspace_policy": "empty"}));
}

fn nested(levels: usize) -> String {
    format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
}

#[test]
fn deep_json_is_refused_before_it_is_journalled() {
    let mut server = server();
    memory(&server);
    let session = server.session(json!({"agent_type": "a"}));
    let id = session["id"].as_str().unwrap();
    let agent = server.client().with_token(session["token"].as_str().unwrap());
    for levels in [60, 70, 100, 124] {
        let body = format!(r#"{{"path": {}}}"#, nested(levels));
        let reply = agent.send("POST", &format!("/sessions/{id}/tools/ls"), &[], Some(body));
        if levels > 64 {
            reply.problem(400, "invalid_request");
        } else {
            assert_eq!(reply.expect(200)["ok"], false);
        }
    }
    let body = format!(r#"{{"agent_type": "a", "metadata": {{"m": {}}}}}"#, nested(100));
    let reply = server.client().send("POST", "/sessions", &[], Some(body));
    assert_eq!(reply.invalid_fields(), ["metadata"]);
    server.restart(None);
    assert_eq!(server.client().get(&format!("/sessions/{id}")).expect(200)["status"], "active");
}

#[test]
fn more_than_any_tool_takes_is_not_written_down() {
    let server = server();
    memory(&server);
    let session = server.session(json!({"agent_type": "a"}));
    let path = format!("/sessions/{}/tools/write", session["id"].as_str().unwrap());
    let size = || server.home().join("stead.db-wal").metadata().map_or(0, |wal| wal.len());
    let before = size();
    for _ in 0..3 {
        let body = json!({"path": "a", "content": "x".repeat(8 << 20)});
        server.client().post(&path, body).problem(413, "too_large");
    }
    assert!(size() - before < 1 << 20, "{} bytes were journalled", size() - before);
}

/// Sends a request and closes the connection before the answer arrives.
fn send_and_hang_up(server: &TestServer, method: &str, path: &str, key: &str, body: &str, patience: Duration) {
    let address = server.client().base().trim_start_matches("http://").to_owned();
    let token = std::fs::read_to_string(server.home().join("token")).unwrap();
    let mut stream = TcpStream::connect(&address).unwrap();
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nIdempotency-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        token.trim(),
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    std::thread::sleep(patience);
}

fn sessions(server: &TestServer) -> Vec<Value> {
    server.client().get("/sessions?limit=500").expect(200)["items"].as_array().unwrap().clone()
}

/// Waits, with a bound, until no session is in a transition.
fn settled(server: &TestServer) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let all = sessions(server);
        let underway = |session: &&Value| ["provisioning", "closing"].contains(&session["status"].as_str().unwrap());
        if all.iter().find(underway).is_none() {
            return all;
        }
        assert!(Instant::now() < deadline, "never settles: {:?}", all.iter().find(underway));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn hanging_up_leaves_nothing_half_done() {
    let server = server();
    memory(&server);
    let mut number = 0;
    // A busy machine reads requests later, and then clients with more patience are needed.
    while number < 60 || (number < 600 && sessions(&server).len() <= 20) {
        let body = r#"{"agent_type": "a"}"#;
        let patience = Duration::from_micros(number * 100);
        send_and_hang_up(&server, "POST", "/sessions", &format!("k{number}"), body, patience);
        number += 1;
    }
    let all = settled(&server);
    assert!(all.len() > 20, "only {} sessions were made", all.len());
    for (number, session) in all.iter().enumerate() {
        let id = session["id"].as_str().unwrap();
        let patience = Duration::from_micros(number as u64 * 100);
        let write = r#"{"path": "a.txt", "content": "x"}"#;
        send_and_hang_up(&server, "POST", &format!("/sessions/{id}/tools/write"), "x", write, patience);
        if number % 2 == 0 {
            send_and_hang_up(&server, "DELETE", &format!("/sessions/{id}"), "x", "", patience);
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    for session in settled(&server) {
        let state = server.client().get(&format!("/sessions/{}/state", session["id"].as_str().unwrap())).expect(200);
        assert_eq!(state["state"]["open_calls"], json!({}), "{state}");
    }
}

#[test]
fn closing_ends_what_runs() {
    let server = server();
    memory(&server);
    for _ in 0..5 {
        let session = server.session(json!({"agent_type": "a"}));
        let id = session["id"].as_str().unwrap();
        std::thread::scope(|scope| {
            for number in 0..20 {
                let client = server.client().clone();
                let path = format!("/sessions/{id}/tools/write");
                scope.spawn(move || {
                    let reply = client.post(&path, json!({"path": format!("f{number}"), "content": "x"}));
                    assert!([200, 409].contains(&reply.status), "{}", reply.text);
                });
            }
            assert_eq!(server.client().delete(&format!("/sessions/{id}")).status, 204);
        });
        let path = format!("/sessions/{id}/events?limit=500");
        let events = server.client().send("GET", &path, &[("accept", "application/json")], None).expect(200);
        let kinds: Vec<&str> =
            events["items"].as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(kinds.last(), Some(&"SessionClosed"), "{kinds:?}");
        let count = |kind: &str| kinds.iter().filter(|found| **found == kind).count();
        assert_eq!(count("ToolCallStarted"), count("ToolCallFinished") + count("ToolCallInterrupted"), "{kinds:?}");
    }
}

#[test]
fn one_damaged_session_harms_no_other() {
    let mut server = server();
    memory(&server);
    let (whole, lost) = (server.session(json!({"agent_type": "a"})), server.session(json!({"agent_type": "a"})));
    server.tool(&whole, "write", json!({"path": "a", "content": "kept"}));
    // Larger than the journal's inline limit, so it is stored as a blob.
    let big: String = "x".repeat(70_000);
    let path = format!("/sessions/{}/files/big.txt", lost["id"].as_str().unwrap());
    assert!(server.client().send("PUT", &path, &[], Some(big)).status < 300);
    server.kill();
    for blob in blobs(&server.home().join("blobs")) {
        std::fs::write(blob, "damaged").unwrap();
    }
    server.broken_on_purpose();
    server.restart(None);
    assert_eq!(server.tool(&whole, "read", json!({"path": "a"}))["result"]["content"], "kept");
    let lost = server.client().get(&format!("/sessions/{}", lost["id"].as_str().unwrap())).expect(200);
    assert_eq!(lost["status"], "failed");
    assert!(lost["failure"].to_string().contains("workspace_lost"), "{lost}");
    assert_eq!(sessions(&server).len(), 2);
}

fn blobs(root: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { directories.push(path) } else { found.push(path) }
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn the_agent_of_an_empty_workspace_cannot_read_what_it_must_not_know() {
    let server = server();
    memory(&server);
    let task = json!({
        "workspace_policy": "empty", "env": {"GH_TOKEN": "canary-token", "KEPT": "kept"},
        "context": {"repository_url": "https://git.example.org/canary/repo", "pull_request_number": 7},
    });
    let session = server.session(json!({"agent_type": "a", "task": task}));
    let id = session["id"].as_str().unwrap();
    let agent = server.client().with_token(session["token"].as_str().unwrap());
    for path in ["", "/state", "/events?limit=500"] {
        let reply = agent.send("GET", &format!("/sessions/{id}{path}"), &[("accept", "application/json")], None);
        assert_eq!(reply.status, 200);
        assert!(!reply.text.contains("canary"), "{path}: {}", reply.text);
        assert!(reply.text.contains("kept") || path.is_empty(), "{path}: {}", reply.text);
    }
}

#[test]
fn one_unreadable_journal_is_named_and_hides_no_other() {
    let mut server = server();
    memory(&server);
    server.agent_type("brief", json!({"enabled": true, "provider": "memory", "ttl_seconds": 3}));
    let broken = server.session(json!({"agent_type": "brief"}));
    let (whole, brief) = (server.session(json!({"agent_type": "a"})), server.session(json!({"agent_type": "brief"})));
    let id = |session: &Value| session["id"].as_str().unwrap().to_owned();
    server.kill();
    let sql = format!("UPDATE events SET payload = 'garbage' WHERE session = '{}' AND seq = 2", id(&broken));
    let edit = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); db.commit()";
    let database = server.home().join("stead.db");
    let edited = std::process::Command::new("python3").args(["-c", edit]).arg(database).arg(sql).status().unwrap();
    assert!(edited.success());
    server.broken_on_purpose();
    server.restart(None);

    let listed: Vec<String> = sessions(&server).iter().map(id).collect();
    assert!(listed.contains(&id(&whole)) && listed.contains(&id(&brief)), "{listed:?}");
    assert_eq!(server.tool(&whole, "ls", json!({}))["ok"], true);
    let replay = server.client().get(&format!("/sessions/{}/replay", id(&broken))).expect(200);
    assert_eq!((&replay["identical"], &replay["difference"]["seq"]), (&json!(false), &json!(2)), "{replay}");
    // The reaper continues past the damaged session, which is due first.
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.client().get(&format!("/sessions/{}", id(&brief))).expect(200)["status"] != "closed" {
        assert!(Instant::now() < deadline, "a session past its time is not closed");
        std::thread::sleep(Duration::from_millis(50));
    }
}
