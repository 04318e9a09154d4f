//! Changes of a session's end and metadata, and the wait for a settled session.

use serde_json::{Value, json};
use stead_testkit::{Reply, ServerOptions, TestServer, until};

use crate::rows::{events, server, server_with};

fn patch(server: &TestServer, id: &str, body: &Value) -> Reply {
    server.client().send("PATCH", &format!("/sessions/{id}"), &[], Some(body.to_string()))
}

fn started(server: &TestServer, metadata: Value) -> String {
    server.agent_type("w", json!({"enabled": true, "ttl_seconds": 600, "idle_seconds": 90_000}));
    let session = server.session(json!({"agent_type": "w", "metadata": metadata}));
    session["id"].as_str().unwrap().to_owned()
}

#[test]
fn metadata_is_merged_and_found() {
    let mut server = server();
    let id = started(&server, json!({"ticket": "OPS-1", "nested": {"a": 1, "b": 2}}));
    let body = json!({"metadata": {"ticket": "OPS-2", "nested": {"b": null, "c": 3}, "new": true}});
    let updated = patch(&server, &id, &body).expect(200);
    let expected = json!({"ticket": "OPS-2", "nested": {"a": 1, "c": 3}, "new": true});
    assert_eq!(updated["metadata"], expected);
    let found = |query: &str| server.client().get(&format!("/sessions?{query}")).expect(200)["items"].clone();
    assert_eq!(found("metadata.ticket=OPS-1"), json!([]));
    assert_eq!(found("metadata.ticket=OPS-2")[0]["id"], json!(id));
    // The same change again is no event.
    let seq = updated["seq"].clone();
    assert_eq!(patch(&server, &id, &body).expect(200)["seq"], seq);
    assert_eq!(events(&server, &id, "SessionUpdated").len(), 1);
    let replay = server.client().get(&format!("/sessions/{id}/replay")).expect(200);
    assert_eq!(replay["identical"], true, "{replay}");
    server.restart(None);
    let after = server.client().get(&format!("/sessions/{id}")).expect(200);
    assert_eq!(after["metadata"], expected);
    let large = json!({"metadata": {"text": "x".repeat(16 * 1024 - 20)}});
    patch(&server, &id, &large).problem(422, "semantic_mismatch");
    let audited = server.client().get(&format!("/audit?session={id}&type=session_updated")).expect(200);
    assert_eq!(audited["items"].as_array().unwrap().len(), 1, "{audited}");
}

#[test]
fn an_end_is_checked() {
    let server = server();
    let id = started(&server, json!({}));
    for (body, status, code) in [
        (json!({"ttl_seconds": 60, "expires_at": "2099-01-01T00:00:00Z"}), 422, "semantic_mismatch"),
        (json!({"expires_at": "2001-01-01T00:00:00Z"}), 422, "semantic_mismatch"),
        (json!({"expires_at": "2999-01-01T00:00:00Z"}), 422, "semantic_mismatch"),
        (json!({"expires_at": null}), 422, "semantic_mismatch"),
        (json!({"ttl_seconds": null}), 422, "semantic_mismatch"),
        (json!({"expires_at": "soon"}), 400, "invalid_request"),
        (json!({"ttl_seconds": 0}), 400, "invalid_request"),
        (json!({"metadata": 1}), 400, "invalid_request"),
        (json!({"status": "closed"}), 400, "invalid_request"),
    ] {
        patch(&server, &id, &body).problem(status, code);
    }
    let token = server.client().post(&format!("/sessions/{id}/token"), json!({})).expect(200);
    let agent = server.client().with_token(token["token"].as_str().unwrap());
    let own = agent.send("PATCH", &format!("/sessions/{id}"), &[], Some(json!({"ttl_seconds": 60}).to_string()));
    own.problem(403, "forbidden");
    server.client().delete(&format!("/sessions/{id}")).expect(204);
    patch(&server, &id, &json!({"ttl_seconds": 60})).problem(409, "session_not_active");
}

/// Sets the server's clocks: milliseconds added to the boot clock and the wall clock.
fn set_clock(file: &std::path::Path, millis: i64) {
    let new = file.with_extension("new");
    std::fs::write(&new, json!({"wall_ms": millis, "boot_ms": millis}).to_string()).unwrap();
    std::fs::rename(new, file).unwrap();
}

#[test]
fn an_end_moves_and_counts_from_its_change() {
    let directory = tempfile::tempdir().unwrap();
    let clock = directory.path().join("clock.json");
    set_clock(&clock, 0);
    let mut server = server_with(ServerOptions::default().env("STEAD_TEST_CLOCK", clock.to_str().unwrap()));
    let longer = started(&server, json!({}));
    let shorter = server.session(json!({"agent_type": "w"}))["id"].as_str().unwrap().to_owned();
    let before = server.client().get(&format!("/sessions/{longer}")).expect(200);
    let extended = patch(&server, &longer, &json!({"ttl_seconds": 7200})).expect(200);
    assert!(extended["expires_at"].as_str() > before["expires_at"].as_str(), "{extended}");
    patch(&server, &shorter, &json!({"ttl_seconds": 60})).expect(200);
    let closed = |server: &TestServer, id: &str| {
        until("the end of the session", || {
            let session = server.client().get(&format!("/sessions/{id}")).expect(200);
            (session["status"] == "closed").then(|| session["close_reason"].clone())
        })
    };
    // After 20 minutes the first end has passed, and only the shortened session is closed.
    set_clock(&clock, 20 * 60_000);
    assert_eq!(closed(&server, &shorter), "expired");
    let kept = server.client().get(&format!("/sessions/{longer}")).expect(200);
    assert_eq!(kept["status"], "active", "{kept}");
    // The new end also holds for the next server.
    server.restart(None);
    let kept = server.client().get(&format!("/sessions/{longer}")).expect(200);
    assert_eq!((&kept["status"], &kept["expires_at"]), (&json!("active"), &extended["expires_at"]));
    set_clock(&clock, 3 * 3_600_000);
    assert_eq!(closed(&server, &longer), "expired");
}

#[test]
fn a_request_waits_until_the_session_has_settled() {
    let server = server_with(ServerOptions::default().failpoints("provision.create=sleep(1500)"));
    server.agent_type("w", json!({"enabled": true}));
    let created = server.client().post("/sessions", json!({"agent_type": "w"})).expect(201);
    let id = created["id"].as_str().unwrap();
    assert_eq!(created["status"], "provisioning");
    let settled = server.client().get(&format!("/sessions/{id}?wait=60")).expect(200);
    assert_eq!(settled["status"], "active", "{settled}");
    server.client().get(&format!("/sessions/{id}?wait=61")).problem(400, "invalid_request");
}
