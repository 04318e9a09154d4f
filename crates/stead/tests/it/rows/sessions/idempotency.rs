//! S7: the same key gives the same session.

use serde_json::{Value, json};
use stead_testkit::{Reply, ServerOptions, TestServer, until};

use crate::rows::{server, server_with};

fn create(server: &TestServer, key: &str, query: &str, body: &Value) -> Reply {
    server.client().send("POST", &format!("/sessions{query}"), &[("idempotency-key", key)], Some(body.to_string()))
}

#[test]
fn s7_same_key_same_session() {
    let mut server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let body = json!({"agent_type": "a", "metadata": {"n": 1}});
    let first = create(&server, "k1", "?wait=5", &body).expect(201);
    let again = create(&server, "k1", "?wait=5", &body);
    assert!([200, 201].contains(&again.status), "{}", again.text);
    assert_eq!(again.json()["id"], first["id"]);
    // The same body in another order is the same request.
    let reordered = r#"{ "metadata" : {"n":1}, "agent_type":"a" }"#;
    let reply = server.client().send("POST", "/sessions", &[("idempotency-key", "k1")], Some(reordered.to_owned()));
    assert_eq!(reply.json()["id"], first["id"]);
    create(&server, "k1", "", &json!({"agent_type": "a", "metadata": {"n": 2}})).problem(422, "idempotency_mismatch");
    let other = create(&server, "k2", "?wait=5", &body).expect(201);
    assert_ne!(other["id"], first["id"]);
    // Keys survive a restart.
    server.restart(None);
    assert_eq!(create(&server, "k1", "", &body).json()["id"], first["id"]);
    create(&server, "k1", "", &json!({"agent_type": "a"})).problem(422, "idempotency_mismatch");
    for bad in ["", " ", &"x".repeat(300)] {
        create(&server, bad, "", &body).problem(400, "invalid_request");
    }
}

#[test]
fn s7_in_progress() {
    let server = server_with(ServerOptions::default().failpoints("provision.create=sleep(2000)"));
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let body = json!({"agent_type": "a"});
    std::thread::scope(|scope| {
        let first = scope.spawn(|| create(&server, "k", "?wait=20", &body));
        // The first request is in progress once its session is listed.
        until("the first session shows", || {
            let shown = server.client().get("/sessions").expect(200);
            (!shown["items"].as_array().unwrap().is_empty()).then_some(())
        });
        let second = create(&server, "k", "", &body);
        second.problem(409, "idempotency_in_progress");
        assert!(second.header("retry-after").is_some());
        let first = first.join().unwrap().expect(201);
        assert_eq!(first["status"], "active");
        assert_eq!(create(&server, "k", "", &body).json()["id"], first["id"]);
    });
}

#[test]
fn s7_fifty_at_once_make_one() {
    let server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let body = json!({"agent_type": "a"});
    let mut ids: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..50).map(|_| scope.spawn(|| create(&server, "one", "", &body))).collect();
        let replies: Vec<Reply> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(replies.iter().all(|reply| [200, 201, 409].contains(&reply.status)), "{replies:?}");
        replies
            .iter()
            .filter(|reply| reply.status != 409)
            .map(|reply| reply.json()["id"].as_str().unwrap().to_owned())
            .collect()
    });
    ids.dedup();
    assert_eq!(ids.len(), 1);
    assert_eq!(server.client().get("/sessions").expect(200)["items"].as_array().unwrap().len(), 1);
}

#[test]
fn agent_types_are_made_once_per_key() {
    let mut server = server();
    let make = |server: &TestServer, key: &str, body: &Value| {
        server.client().send("POST", "/agent-types", &[("idempotency-key", key)], Some(body.to_string()))
    };
    let body = json!({"id": "a", "workspace": {"enabled": true}});
    make(&server, "k", &body).expect(201);
    assert_eq!(make(&server, "k", &body).expect(201)["id"], "a");
    make(&server, "k", &json!({"id": "a"})).problem(422, "idempotency_mismatch");
    make(&server, "k", &json!({"id": "b", "workspace": {"enabled": true}})).problem(422, "idempotency_mismatch");
    make(&server, "other", &body).problem(409, "conflict");
    server.client().post("/agent-types", body.clone()).problem(409, "conflict");
    server.restart(None);
    assert_eq!(make(&server, "k", &body).expect(201)["id"], "a");
    server.client().get("/agent-types/b").problem(404, "not_found");
}
