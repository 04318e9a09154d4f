//! C: agent types and their workspace config.

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer};

use crate::rows::{server, server_with};

fn config(server: &TestServer, id: &str) -> Value {
    server.client().get(&format!("/agent-types/{id}/workspace-config")).expect(200)
}

#[test]
fn c1_default_off() {
    let server = server();
    server.client().post("/agent-types", json!({"id": "plain"})).expect(201);
    assert_eq!(config(&server, "plain")["enabled"], false);
    let session = server.session(json!({"agent_type": "plain"}));
    assert_eq!(session["status"], "active");
    assert_eq!(session["workspace"], Value::Null);
    let id = session["id"].as_str().unwrap();
    for tool in ["bash", "read", "write", "ls"] {
        server.client().post(&format!("/sessions/{id}/tools/{tool}"), json!({})).problem(404, "no_workspace");
    }
    let events =
        server.client().send("GET", &format!("/sessions/{id}/events"), &[("accept", "application/json")], None);
    let kinds: Vec<Value> =
        events.expect(200)["items"].as_array().unwrap().iter().map(|event| event["type"].clone()).collect();
    assert!(!kinds.contains(&json!("ProvisionStarted")), "{kinds:?}");
}

#[test]
fn c2_all_fields_round_trip() {
    let server = server();
    server.client().post("/agent-types", json!({"id": "full"})).expect(201);
    let full = json!({
        "enabled": true, "provider": "native", "fallback_provider": "podman",
        "repo_source": {"type": "fixed", "url": "https://git.example.org/org/infra", "branch": "main"},
        "workspace_policy": {"type": "git", "url": "https://git.example.org/org/infra", "ref": "v1", "depth": 1},
        "tools": ["bash", "read", "write", "edit", "grep", "git"],
        "resource_limits": {"cpu": "2", "memory": "4G", "disk": "10G", "pids": 512},
        "checkout_on_start": false, "base_image": "debian:12",
        "git": {"push_branches": ["agent/*"], "allow_force_push": false, "submodules": true, "lfs": false},
        "setup_commands": ["npm install", "npm run build"], "setup_timeout_seconds": 60, "on_setup_failure": "fail",
        "setup_cache": false, "setup_user": "agent", "require_workspace": true,
        "mounts": [{"host_path": "/srv/docs", "mount_path": "docs", "include_glob": ["*.md"], "exclude_glob": ["x"], "max_bytes": 10, "follow_symlinks": true}],
        "network": {"setup": {"mode": "allow", "domains": ["example.org"]}, "agent": {"mode": "none", "domains": []}},
        "limits": {"write_chars": 1000, "path_depth": 8, "segment_chars": 40, "output_bytes": 4096, "command_chars": 100},
        "rewind": {"points": "free", "keep": 7}, "ttl_seconds": 600, "idle_seconds": 60, "warm_pool": 1
    });
    server.client().put("/agent-types/full/workspace-config", full.clone()).expect(200);
    assert_eq!(config(&server, "full"), full);
    // A config given at creation reads back unchanged.
    server.client().post("/agent-types", json!({"id": "born", "workspace": full})).expect(201);
    assert_eq!(config(&server, "born"), full);
    // A PUT replaces the config: omitted fields return to their defaults.
    server.client().put("/agent-types/full/workspace-config", json!({"enabled": true})).expect(200);
    let replaced = config(&server, "full");
    assert_eq!((&replaced["tools"], &replaced["setup_commands"]), (&Value::Null, &json!([])));
    // Unset fields are present too.
    let names = |config: &Value| config.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(names(&replaced), names(&full));
}

#[test]
fn c3_invalid_tools() {
    let server = server();
    server.agent_type("a", json!({"enabled": true, "tools": ["read"]}));
    let before = config(&server, "a");
    let reply =
        server.client().put("/agent-types/a/workspace-config", json!({"enabled": true, "tools": ["bash", "ssh"]}));
    assert_eq!(reply.invalid_fields(), ["tools"]);
    for word in ["ssh", "bash", "read", "write", "edit", "glob", "grep", "git", "ls", "rm", "python", "eval"] {
        assert!(reply.text.contains(word), "{word} is not in {}", reply.text);
    }
    assert_eq!(config(&server, "a"), before);
}

#[test]
fn c4_repo_source() {
    let server = server();
    server.agent_type("a", json!({}));
    for (source, field) in [
        (json!({"type": "svn"}), "repo_source.type"),
        (json!({"type": "fixed"}), "repo_source.url"),
        (json!({"type": "none", "url": "https://git.example.org/a"}), "repo_source.url"),
        (json!({"type": "fixed", "url": "ext::sh -c id"}), "repo_source.url"),
    ] {
        let reply = server.client().put("/agent-types/a/workspace-config", json!({"repo_source": source}));
        assert_eq!(reply.invalid_fields(), [field]);
    }
}

#[test]
fn c5_limits() {
    let options = ServerOptions::default()
        .env("WORKSPACE_DEFAULT_CPU", "3")
        .env("WORKSPACE_DEFAULT_MEMORY", "5G")
        .env("WORKSPACE_DEFAULT_DISK", "7G");
    let server = server_with(options);
    server.agent_type("a", json!({"enabled": true, "provider": "memory", "resource_limits": {"cpu": "1"}}));
    for bad in [
        json!({"cpu": "banana"}),
        json!({"memory": "4X"}),
        json!({"cpu": "0"}),
        json!({"disk": "-1G"}),
        json!({"pids": 0}),
    ] {
        let reply = server.client().put("/agent-types/a/workspace-config", json!({"resource_limits": bad}));
        assert!(reply.invalid_fields()[0].starts_with("resource_limits."), "{}", reply.text);
    }
    let session = server.session(json!({"agent_type": "a"}));
    let limits = &session["workspace"]["limits"];
    assert_eq!((&limits["cpu"], &limits["memory"], &limits["disk"]), (&json!("1"), &json!("5G"), &json!("7G")));
    // The provider warns about limits that it cannot enforce.
    assert!(
        session["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "limit_not_enforced"),
        "{session}"
    );
}

#[test]
fn c6_isolation_of_change() {
    let server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory", "tools": ["read", "write"]}));
    let before = server.session(json!({"agent_type": "a"}));
    server
        .client()
        .put("/agent-types/a/workspace-config", json!({"enabled": true, "provider": "memory", "tools": ["ls"]}))
        .expect(200);
    server.tool(&before, "write", json!({"path": "a.txt", "content": "still allowed"}));
    let after = server.session(json!({"agent_type": "a"}));
    let path = format!("/sessions/{}/tools/write", after["id"].as_str().unwrap());
    server.client().post(&path, json!({"path": "a.txt", "content": "x"})).problem(403, "tool_not_enabled");
    server.tool(&after, "ls", json!({}));
}

#[test]
fn c7_tool_ban() {
    let server = server();
    server.agent_type("reader", json!({"enabled": true, "provider": "memory", "tools": ["read", "grep"]}));
    server.agent_type("nothing", json!({"enabled": true, "provider": "memory", "tools": []}));
    let session = server.session(json!({"agent_type": "reader"}));
    let id = session["id"].as_str().unwrap();
    let detail = server
        .client()
        .post(&format!("/sessions/{id}/tools/bash"), json!({"command": "true"}))
        .problem(403, "tool_not_enabled");
    assert_eq!(detail, "Tool 'bash' is not enabled for this agent type");
    // The alias is refused too.
    let detail = server
        .client()
        .post(&format!("/sessions/{id}/tools/shell_execute"), json!({"command": "true"}))
        .problem(403, "tool_not_enabled");
    assert_eq!(detail, "Tool 'bash' is not enabled for this agent type");
    // The session's own token is refused too.
    let agent = server.client().with_token(session["token"].as_str().unwrap());
    agent.post(&format!("/sessions/{id}/tools/write"), json!({})).problem(403, "tool_not_enabled");
    let audit = server.client().get(&format!("/audit?session={id}&type=refusal")).expect(200);
    assert_eq!(audit["items"].as_array().unwrap().len(), 3, "{audit}");
    let session = server.session(json!({"agent_type": "nothing"}));
    let id = session["id"].as_str().unwrap();
    for tool in ["bash", "read", "write", "edit", "glob", "grep", "git", "ls", "rm", "python", "eval"] {
        server.client().post(&format!("/sessions/{id}/tools/{tool}"), json!({})).problem(403, "tool_not_enabled");
    }
}

#[test]
fn c8_unknown_fields() {
    let server = server();
    server.agent_type("a", json!({}));
    let client = server.client();
    assert_eq!(client.put("/agent-types/a/workspace-config", json!({"enabeld": true})).invalid_fields(), ["enabeld"]);
    assert_eq!(client.post("/agent-types", json!({"id": "b", "workspcae": {}})).invalid_fields(), ["workspcae"]);
    assert_eq!(client.post("/sessions", json!({"agent_type": "a", "taks": {}})).invalid_fields(), ["taks"]);
    assert_eq!(
        client.post("/sessions", json!({"agent_type": "a", "task": {"contxt": {}}})).invalid_fields(),
        ["task.contxt"]
    );
    assert_eq!(client.put("/platform", json!({"alowed_host_roots": []})).invalid_fields(), ["alowed_host_roots"]);
    assert_eq!(client.put("/projects/p", json!({"repo": "x"})).invalid_fields(), ["repo"]);
    client.get("/agent-types/b").problem(404, "not_found");
}
