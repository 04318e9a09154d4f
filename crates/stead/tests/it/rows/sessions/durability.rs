//! S9: `kill -9` at any moment is normal operation.

use serde_json::json;
use stead_testkit::{ServerOptions, until};

use crate::rows::{server, server_with};

#[test]
fn s9_killed_while_active_continues_with_its_files() {
    let mut server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "a"}));
    let id = session["id"].as_str().unwrap();
    server.tool(&session, "write", json!({"path": "d/a.txt", "content": "kept"}));
    server.restart(None);
    let after = server.client().get(&format!("/sessions/{id}")).expect(200);
    assert_eq!(after["status"], "active");
    assert_eq!(server.tool(&session, "read", json!({"path": "d/a.txt"}))["result"]["content"], "kept");
    // The session's token is still valid.
    let agent = server.client().with_token(session["token"].as_str().unwrap());
    agent.post(&format!("/sessions/{id}/tools/ls"), json!({})).expect(200);
}

#[test]
fn s9_killed_while_provisioning_goes_on() {
    let mut server = server_with(ServerOptions::default().failpoints("provision.create=sleep(60000)"));
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.client().post("/sessions", json!({"agent_type": "a"})).expect(201);
    let id = session["id"].as_str().unwrap().to_owned();
    until("provisioning starts", || journal(&server, &id).contains("ProvisionStarted").then_some(()));
    server.restart(None);
    let settled = wait_settled(&server, &id);
    assert_eq!((&settled["status"], &settled["degraded"]), (&json!("active"), &json!(false)));
    let events = journal(&server, &id);
    assert!(events.contains("ProvisionInterrupted"), "{events}");
}

#[test]
fn s9_killed_during_a_call_tells_so() {
    let mut server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "a"}));
    let id = session["id"].as_str().unwrap().to_owned();
    server.restart(Some("tool.perform=sleep(60000)"));
    std::thread::scope(|scope| {
        let client = server.client().clone();
        let path = format!("/sessions/{id}/tools/write");
        scope
            .spawn(move || client.try_send("POST", &path, &[], Some(json!({"path": "a", "content": "x"}).to_string())));
        until("the call starts", || journal(&server, &id).contains("ToolCallStarted").then_some(()));
        server.kill();
    });
    server.restart(None);
    let events = journal(&server, &id);
    assert!(events.contains("ToolCallInterrupted"), "{events}");
    let read = server.tool(&session, "read", json!({"path": "a"}));
    assert_eq!((&read["ok"], &read["error"]["code"]), (&json!(false), &json!("not_found")));
}

/// A read-only call needs no recovery, so its intent is not recorded before it runs.
#[test]
fn s9_killed_during_a_read_leaves_nothing_of_it() {
    let mut server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "a"}));
    let id = session["id"].as_str().unwrap().to_owned();
    server.restart(Some("tool.perform=sleep(60000)"));
    std::thread::scope(|scope| {
        let call = |tool: &str, arguments: serde_json::Value| {
            let (client, path) = (server.client().clone(), format!("/sessions/{id}/tools/{tool}"));
            scope.spawn(move || client.try_send("POST", &path, &[], Some(arguments.to_string())));
        };
        call("read", json!({"path": "a"}));
        // Control: a write records its intent, which shows that calls reach the failpoint.
        call("write", json!({"path": "a", "content": "x"}));
        until("the write starts", || journal(&server, &id).contains("ToolCallStarted").then_some(()));
        server.kill();
    });
    server.restart(None);
    let events = journal(&server, &id);
    assert_eq!((events.matches("ToolCallStarted").count(), events.matches("ToolCallInterrupted").count()), (1, 1));
    assert!(events.contains(r#""tool":"write""#) && !events.contains(r#""tool":"read""#), "{events}");
    // An intent without an outcome would show up as an open call.
    let state = server.client().get(&format!("/sessions/{id}/state")).expect(200);
    assert_eq!(state["state"]["open_calls"], json!({}), "{state}");
    assert_eq!(server.tool(&session, "read", json!({"path": "a"}))["error"]["code"], "not_found");
}

#[test]
fn s9_killed_while_closing_ends_closed() {
    let mut server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "a"}));
    let id = session["id"].as_str().unwrap().to_owned();
    server.restart(Some("remove=sleep(60000)"));
    std::thread::scope(|scope| {
        let client = server.client().clone();
        let path = format!("/sessions/{id}");
        scope.spawn(move || client.try_send("DELETE", &path, &[], None));
        let status = || server.client().get(&format!("/sessions/{id}")).expect(200)["status"].clone();
        until("the session is closing", || (status() == "closing").then_some(()));
        server.kill();
    });
    server.restart(None);
    assert_eq!(wait_settled(&server, &id)["status"], "closed");
}

/// Returns the text of a session's journal.
fn journal(server: &stead_testkit::TestServer, id: &str) -> String {
    let path = format!("/sessions/{id}/events?limit=500");
    server.client().send("GET", &path, &[("accept", "application/json")], None).expect(200).to_string()
}

fn wait_settled(server: &stead_testkit::TestServer, id: &str) -> serde_json::Value {
    until("the session settles", || {
        let session = server.client().get(&format!("/sessions/{id}")).expect(200);
        (!["provisioning", "closing"].contains(&session["status"].as_str().unwrap())).then_some(session)
    })
}

/// The disk is full at times. Some writes are refused, none is half done, and nothing stays stuck
/// afterwards.
#[test]
fn s9_a_store_that_fails_now_and_then_wedges_nothing() {
    let server = server_with(ServerOptions::default().failpoints("store.commit.before=12*off->25%40*return"));
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let mut sessions = Vec::new();
    let mut refused = 0;
    for number in 0..20 {
        let key = format!("k{number}");
        let create = || {
            let body = json!({"agent_type": "a"}).to_string();
            server.client().send("POST", "/sessions?wait=20", &[("idempotency-key", &key)], Some(body))
        };
        let mut reply = create();
        for _ in 0..50 {
            if reply.status == 201 {
                break;
            }
            refused += 1;
            reply.problem(503, "unavailable");
            reply = create();
        }
        let session = reply.expect(201);
        let id = session["id"].as_str().unwrap();
        let written =
            server.client().post(&format!("/sessions/{id}/tools/write"), json!({"path": "a", "content": "x"}));
        assert!([200, 503].contains(&written.status), "{}", written.text);
        refused += u32::from(written.status == 503);
        let read = server.client().post(&format!("/sessions/{id}/tools/read"), json!({"path": "a"}));
        if (written.status, read.status) == (200, 200) {
            assert_eq!(read.json()["result"]["content"], "x", "an acknowledged write is there");
        }
        sessions.push(id.to_owned());
    }
    assert!(refused > 0, "nothing was ever refused");
    for id in &sessions {
        let settled = wait_settled(&server, id);
        assert_eq!((&settled["status"], &settled["degraded"]), (&json!("active"), &json!(false)), "{settled}");
    }
    for id in &sessions {
        until("every call has its outcome", || {
            let state = server.client().get(&format!("/sessions/{id}/state")).expect(200);
            (state["state"]["open_calls"] == json!({})).then_some(())
        });
    }
}
