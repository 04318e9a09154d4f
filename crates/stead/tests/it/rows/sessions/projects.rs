//! Lists and deletions of projects, and audit records by project, actor and time.

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use crate::rows::{server, server_with};

fn audit(server: &TestServer, query: &str) -> Vec<Value> {
    let page = server.client().get(&format!("/audit?{query}&limit=500")).expect(200);
    page["items"].as_array().unwrap().clone()
}

fn kinds(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["type"].as_str().unwrap()).collect()
}

#[test]
fn audit_records_are_filtered_and_exported() {
    let server = server();
    server.agent_type("w", json!({"enabled": true}));
    for project in ["web", "app"] {
        server.client().put(&format!("/projects/{project}"), json!({})).expect(200);
    }
    let web = server.session(json!({"agent_type": "w", "project": "web"}));
    server.session(json!({"agent_type": "w", "project": "app"}));
    server.session(json!({"agent_type": "w"}));
    server.client().delete(&format!("/sessions/{}", web["id"].as_str().unwrap())).expect(204);
    let of_web = audit(&server, "project=web");
    assert_eq!(kinds(&of_web), ["admin_change", "session_created", "policy_resolved", "session_close"]);
    assert!(of_web.iter().all(|record| record["project"] == "web"), "{of_web:?}");
    assert_eq!(kinds(&audit(&server, "project=web&type=session_close")), ["session_close"]);
    assert!(audit(&server, "actor=user:eve@web").is_empty());
    let all = audit(&server, "order=oldest");
    assert_eq!(audit(&server, "actor=admin:admin").len() + audit(&server, "actor=system").len(), all.len());
    let (first, last) = (all[0]["at"].as_str().unwrap(), all[all.len() - 1]["at"].as_str().unwrap());
    assert_eq!(audit(&server, &format!("from={first}")).len(), all.len());
    assert!(audit(&server, &format!("to={first}")).is_empty());
    let since = audit(&server, &format!("from={last}"));
    assert!(!since.is_empty() && since.len() <= all.len(), "{since:?}");
    for wrong in ["from=yesterday", "actor=", "project=a/b", "type=nothing", "kind=x"] {
        server.client().get(&format!("/audit?{wrong}")).problem(400, "invalid_request");
    }
    assert!(audit(&server, "type=access_denied").is_empty());
    let accept = [("accept", "application/x-ndjson")];
    let exported = server.client().send("GET", "/audit?limit=1", &accept, None);
    assert_eq!(exported.header("content-type"), Some("application/x-ndjson"));
    let lines: Vec<Value> = exported.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, all, "every record, whatever the limit");
    let part = server.client().send("GET", "/audit?project=web&order=newest", &accept, None);
    assert_eq!(part.text.lines().count(), of_web.len());
}

fn gone(server: &TestServer, project: &str) {
    until("the end of the deletion", || {
        (server.client().get(&format!("/projects/{project}")).status == 404).then_some(())
    });
}

#[test]
fn a_project_is_deleted_with_its_sessions() {
    let server = server();
    server.agent_type("w", json!({"enabled": true}));
    for project in ["web", "app"] {
        server.client().put(&format!("/projects/{project}"), json!({"default_branch": "main"})).expect(200);
    }
    let listed = server.client().get("/projects").expect(200);
    let active = |id: &str| json!({"id": id, "status": "active"});
    assert_eq!(listed["items"], json!([active("app"), active("web")]));
    let page = server.client().get("/projects?limit=1").expect(200);
    assert_eq!((&page["items"], &page["next_cursor"]), (&json!([active("app")]), &json!("app")));
    let inside = server.session(json!({"agent_type": "w", "project": "web"}));
    let paused = server.session(json!({"agent_type": "w", "project": "web"}));
    server.client().post(&format!("/sessions/{}/pause", paused["id"].as_str().unwrap()), json!({})).expect(200);
    let outside = server.session(json!({"agent_type": "w", "project": "app"}));
    server.client().delete("/projects/none").problem(404, "not_found");
    let deleting = server.client().delete("/projects/web").expect(202);
    assert_eq!((&deleting["id"], &deleting["status"]), (&json!("web"), &json!("deleting")), "{deleting}");
    assert_eq!(deleting["requested_by"], "admin:admin");
    gone(&server, "web");
    for (session, status) in [(&inside, "closed"), (&paused, "closed"), (&outside, "active")] {
        let now = server.client().get(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(200);
        assert_eq!(now["status"], status, "{now}");
    }
    let records = audit(&server, "project=web");
    let kinds = kinds(&records);
    assert!(kinds.contains(&"project_deletion"), "{kinds:?}");
    until("the last record", || (!audit(&server, "project=web&type=project_deleted").is_empty()).then_some(()));
    assert_eq!(server.client().get("/projects").expect(200)["items"], json!([active("app")]));
    // The sessions are on record under the name, so it is never used again.
    server.client().put("/projects/web", json!({})).problem(409, "conflict");
}

#[test]
fn a_deletion_refuses_new_sessions_and_continues_after_the_server_is_killed() {
    let mut server = server_with(ServerOptions::default().failpoints("remove=sleep(600000)"));
    server.agent_type("w", json!({"enabled": true}));
    server.client().put("/projects/web", json!({})).expect(200);
    let session = server.session(json!({"agent_type": "w", "project": "web"}));
    let deleting = server.client().delete("/projects/web").expect(202);
    assert_eq!(deleting["remaining_sessions"], 1, "{deleting}");
    server.client().post("/sessions", json!({"agent_type": "w", "project": "web"})).problem(409, "conflict");
    server.client().put("/projects/web", json!({})).problem(409, "conflict");
    let shown = server.client().get("/projects/web").expect(200);
    assert_eq!(shown["deletion"]["status"], "deleting", "{shown}");
    let again = server.client().delete("/projects/web").expect(202);
    assert_eq!(again["requested_at"], deleting["requested_at"]);
    let listed = server.client().get("/projects").expect(200);
    assert_eq!(listed["items"], json!([{"id": "web", "status": "deleting"}]));
    server.restart(None);
    gone(&server, "web");
    let closed = server.client().get(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(200);
    assert_eq!(closed["status"], "closed", "{closed}");
}
