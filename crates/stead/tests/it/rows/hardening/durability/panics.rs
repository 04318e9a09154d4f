//! A panic in the server ends only the call that hit it, and the journal records it.

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use crate::rows::{events, server, server_with};

fn with_panic_at(failpoint: &str) -> (TestServer, Value) {
    let server = server_with(ServerOptions::default().failpoints(&format!("{failpoint}=1*panic(on purpose)")));
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "a"}));
    (server, session)
}

fn id_of(session: &Value) -> &str {
    session["id"].as_str().unwrap()
}

/// Asserts that every started call has an end in the journal.
fn assert_no_open_call(server: &TestServer, session: &Value) {
    let id = id_of(session);
    until("every started call has an end", || {
        let started = events(server, id, "ToolCallStarted").len() + events(server, id, "FileOperationStarted").len();
        let kinds = ["ToolCallFinished", "ToolCallInterrupted", "FileOperationFinished", "FileOperationInterrupted"];
        let ended: usize = kinds.iter().map(|kind| events(server, id, kind).len()).sum();
        (started == ended).then_some(())
    });
}

#[test]
fn a_panic_in_a_tool_is_the_recorded_answer_of_that_call() {
    let (server, session) = with_panic_at("tool.call");
    let answer = server.tool(&session, "write", json!({"path": "a.txt", "content": "x"}));
    assert_eq!(answer["error"]["code"], "internal", "{answer}");
    assert_no_open_call(&server, &session);
    // Control: the same call without the bug.
    let answer = server.tool(&session, "write", json!({"path": "a.txt", "content": "x"}));
    assert!(answer["error"].is_null(), "{answer}");
}

#[test]
fn a_panic_before_the_record_interrupts_the_call() {
    for failpoint in ["tool.record", "tool.perform"] {
        let (server, session) = with_panic_at(failpoint);
        let path = format!("/sessions/{}/tools/write", id_of(&session));
        server.client().post(&path, json!({"path": "a.txt", "content": "x"})).problem(500, "internal");
        assert_no_open_call(&server, &session);
        assert_eq!(events(&server, id_of(&session), "ToolCallInterrupted").len(), 1, "{failpoint}");
        server.tool(&session, "write", json!({"path": "a.txt", "content": "x"}));
    }
}

#[test]
fn a_panic_in_a_file_operation_interrupts_it() {
    let (server, session) = with_panic_at("operation.perform");
    let path = format!("/sessions/{}/files/a.txt", id_of(&session));
    server.client().bytes("PUT", &path, &[], b"x").reply().problem(500, "internal");
    assert_no_open_call(&server, &session);
    assert_eq!(server.client().bytes("PUT", &path, &[], b"x").status, 201);
}

#[test]
fn a_panic_in_provisioning_fails_the_session_and_not_the_server() {
    let server = server_with(ServerOptions::default().failpoints("provision.create=1*panic(on purpose)"));
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "a"}));
    assert!(session.to_string().contains("bug in the server"), "{session}");
    // Control: without the bug a session gets its workspace.
    let session = server.session(json!({"agent_type": "a"}));
    assert_eq!((&session["status"], &session["workspace"]["status"]), (&json!("active"), &json!("ready")), "{session}");
}

#[test]
fn a_glob_that_cannot_be_compiled_is_a_clear_error() {
    let server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "a"}));
    server.tool(&session, "write", json!({"path": "a.txt", "content": "x"}));
    let deep = |depth: usize| format!("{}a.txt{}", "{".repeat(depth), "}".repeat(depth));
    for (tool, arguments) in
        [("glob", json!({"pattern": deep(400)})), ("grep", json!({"pattern": "x", "glob": deep(400)}))]
    {
        let answer = server.tool(&session, tool, arguments);
        assert_eq!(answer["error"]["code"], "invalid_argument", "{answer}");
    }
    // Control: a pattern with less nesting compiles and finds the file.
    let found = server.tool(&session, "glob", json!({"pattern": deep(3)}));
    assert!(found["result"].to_string().contains("a.txt"), "{found}");
    assert_no_open_call(&server, &session);
}

#[test]
fn a_refused_rewind_is_no_difference_to_the_sessions_own_agent_type() {
    let server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    server.agent_type("b", json!({"enabled": true, "provider": "memory", "tools": ["read"]}));
    let session = server.session(json!({"agent_type": "a"}));
    server.tool(&session, "write", json!({"path": "a.txt", "content": "x"}));
    let at = |below: &str| format!("/sessions/{}{below}", id_of(&session));
    let refused = server.client().post(&at("/rewind"), json!({"to": 9999}));
    assert!(refused.status >= 400, "{}", refused.text);
    assert_eq!(events(&server, id_of(&session), "RewindRefused").len(), 1);
    let report = server.client().get(&at("/replay/against?agent_type=a")).expect(200);
    assert_eq!(report["changed"], json!([]), "{report}");
    // Control: a type that enables fewer tools does differ.
    let report = server.client().get(&at("/replay/against?agent_type=b")).expect(200);
    assert_ne!(report["changed"], json!([]), "{report}");
}
