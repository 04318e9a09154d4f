//! F11: clones share the workspace, or nothing.

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer};

use crate::rows::{Files, on_both, put, server, server_with, writer};

fn path(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

fn clones(server: &TestServer, session: &Value, body: Value) -> Vec<Value> {
    let made = server.client().post(&path(session, "/clone?wait=20"), body).expect(201);
    made["items"].as_array().unwrap().clone()
}

#[track_caller]
fn content(server: &TestServer, session: &Value, at: &str) -> String {
    let bytes = server.client().bytes("GET", &path(session, &format!("/files/{at}")), &[], &[]).expect(200);
    String::from_utf8(bytes).unwrap()
}

#[track_caller]
fn close(server: &TestServer, session: &Value) {
    assert_eq!(server.client().delete(&path(session, "")).status, 204);
}

fn f11_none_shares_until_the_last_one_closes(files: Files) {
    let mut server = server();
    let session = writer(&server, files);
    put(&server, &session, "a", b"one");
    let both = clones(&server, &session, json!({"isolation": "none", "count": 2}));
    let [first, second] = both.as_slice() else { panic!("{both:?}") };
    for clone in &both {
        assert_eq!((&clone["status"], &clone["workspace"]["id"]), (&json!("active"), &session["workspace"]["id"]));
        assert_ne!(clone["id"], session["id"]);
    }
    // Each clone has its own token, which is valid for that clone only.
    let agent = server.client().with_token(first["token"].as_str().unwrap());
    agent.bytes("PUT", &path(first, "/files/a"), &[], b"two").reply().expect(200);
    agent.bytes("GET", &path(&session, "/files/a"), &[], &[]).reply().problem(404, "not_found");
    assert_eq!(content(&server, &session, "a"), "two");
    assert_eq!(content(&server, second, "a"), "two");
    // Closing the source session, even twice, leaves the clones' files intact.
    close(&server, &session);
    close(&server, &session);
    assert_eq!(content(&server, first, "a"), "two");
    server.restart(None);
    put(&server, second, "b", b"three");
    assert_eq!(content(&server, first, "b"), "three");
    close(&server, first);
    close(&server, &session);
    assert_eq!(content(&server, second, "b"), "three");
    close(&server, second);
    let gone = server.client().get(&path(second, "")).expect(200);
    assert_eq!((&gone["status"], &gone["workspace"]["status"]), (&json!("closed"), &json!("removed")));
    server.client().get(&path(second, "/files/b")).problem(409, "session_not_active");
}

fn f11_full_shares_nothing(files: Files) {
    let mut server = server();
    let session = writer(&server, files);
    put(&server, &session, "a", b"one");
    let three = clones(&server, &session, json!({"isolation": "full", "count": 3}));
    let hash = |session: &Value| server.client().get(&path(session, "")).expect(200)["workspace"]["tree_hash"].clone();
    for clone in &three {
        assert_ne!(clone["workspace"]["id"], session["workspace"]["id"]);
        assert_eq!(hash(clone), hash(&session));
    }
    put(&server, &three[0], "a", b"mine");
    put(&server, &session, "a", b"two");
    assert_eq!(content(&server, &three[0], "a"), "mine");
    assert_eq!(content(&server, &three[1], "a"), "one");
    close(&server, &session);
    close(&server, &three[2]);
    server.restart(None);
    assert_eq!(content(&server, &three[0], "a"), "mine");
    assert_eq!(content(&server, &three[1], "a"), "one");
    // Clones can be cloned.
    let again = clones(&server, &three[0], json!({"isolation": "full"}));
    assert_eq!(content(&server, &again[0], "a"), "mine");
}

fn f11_all_the_clones_or_none(files: Files) {
    let server = server_with(ServerOptions::default().env("WORKSPACE_MAX_CONCURRENT", "3"));
    let session = writer(&server, files);
    let refused = server.client().post(&path(&session, "/clone"), json!({"isolation": "none", "count": 3}));
    refused.problem(429, "capacity");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(server.client().get("/sessions").expect(200)["items"].as_array().unwrap().len(), 1);
    assert_eq!(clones(&server, &session, json!({"isolation": "none", "count": 2})).len(), 2);
}

fn f11_what_is_refused(files: Files) {
    let server = server();
    let session = writer(&server, files);
    let ask = |body: Value| server.client().post(&path(&session, "/clone"), body);
    for body in [
        json!({}),
        json!({"isolation": "half"}),
        json!({"isolation": "full", "count": 0}),
        json!({"isolation": "full", "count": 65}),
        json!({"isolation": "full", "number": 1}),
    ] {
        ask(body).problem(400, "invalid_request");
    }
    let agent = server.client().with_token(session["token"].as_str().unwrap());
    agent.post(&path(&session, "/clone"), json!({"isolation": "full"})).problem(403, "forbidden");
    server.agent_type("off", json!({}));
    let off = server.session(json!({"agent_type": "off"}));
    for isolation in ["none", "full"] {
        let refused = server.client().post(&path(&off, "/clone"), json!({"isolation": isolation}));
        refused.problem(404, "no_workspace");
    }
    close(&server, &session);
    ask(json!({"isolation": "none"})).problem(409, "session_not_active");
}

fn f11_a_key_makes_one_set(files: Files) {
    let mut server = server();
    let session = writer(&server, files);
    let ask = |server: &TestServer, count: u32| {
        let (at, body) = (path(&session, "/clone?wait=20"), json!({"isolation": "full", "count": count}).to_string());
        server.client().send("POST", &at, &[("idempotency-key", "k")], Some(body))
    };
    let ids = |made: &Value| -> Vec<Value> {
        made["items"].as_array().unwrap().iter().map(|clone| clone["id"].clone()).collect()
    };
    let first = ids(&ask(&server, 2).expect(201));
    assert_eq!(ids(&ask(&server, 2).expect(201)), first);
    ask(&server, 3).problem(422, "idempotency_mismatch");
    server.restart(None);
    assert_eq!(ids(&ask(&server, 2).expect(201)), first);
    assert_eq!(server.client().get("/sessions").expect(200)["items"].as_array().unwrap().len(), 3);
}

on_both!(
    f11_none_shares_until_the_last_one_closes,
    f11_full_shares_nothing,
    f11_all_the_clones_or_none,
    f11_what_is_refused,
    f11_a_key_makes_one_set
);
