//! P: the four policy layers, the capabilities and the init plan.

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer};

use crate::rows::{server, server_with};

const REPO: &str = "https://git.example.org/org/repo";

fn plan(server: &TestServer, body: Value) -> Value {
    server.client().post("/sessions:plan", body).expect(200)["workspace"].clone()
}

fn agent_type(server: &TestServer, body: Value) {
    server.client().post("/agent-types", body).expect(201);
}

#[test]
fn p1_precedence_a_layer_at_a_time() {
    let server = server();
    let client = server.client();
    let git = |name: &str| json!({"type": "git", "url": format!("https://git.example.org/{name}")});
    let role = |policy: Value| json!({"enabled": true, "provider": "memory", "workspace_policy": policy});
    agent_type(&server, json!({"id": "a", "workspace": role(git("role"))}));
    client.put("/projects/p", json!({"workspace_policy": git("project")})).expect(200);
    client.put("/platform", json!({"workspace_policy": git("platform")})).expect(200);
    let ask =
        |task: Value| plan(&server, json!({"agent_type": "a", "project": "p", "task": {"workspace_policy": task}}));
    let winner = |workspace: &Value| {
        let clone = &workspace["plan"]["actions"][1]["url"];
        (workspace["policy"]["source"].as_str().unwrap().to_owned(), clone.as_str().unwrap_or_default().to_owned())
    };
    let expected = |name: &str| (name.to_owned(), format!("https://git.example.org/{name}"));

    let all = ask(git("task"));
    assert_eq!(winner(&all), expected("task"));
    assert_eq!(all["policy"]["policy"], "git");
    for layer in ["task", "role", "project", "platform"] {
        assert_eq!(all["policy"]["chain"][layer]["url"], format!("https://git.example.org/{layer}"));
    }
    assert_eq!(winner(&ask(Value::Null)), expected("role"));
    client.put("/agent-types/a/workspace-config", role(Value::Null)).expect(200);
    assert_eq!(winner(&ask(Value::Null)), expected("project"));
    client.put("/projects/p", json!({})).expect(200);
    assert_eq!(winner(&ask(Value::Null)), expected("platform"));
    client.put("/platform", json!({})).expect(200);
    let none = ask(Value::Null);
    assert_eq!((&none["policy"]["policy"], &none["policy"]["source"]), (&json!("empty"), &json!("default")));
}

#[test]
fn p1_unknown_value_names_its_layer() {
    let server = server();
    agent_type(&server, json!({"id": "a", "workspace": {"enabled": true}}));
    let client = server.client();
    let reply = client.post("/sessions", json!({"agent_type": "a", "task": {"workspace_policy": "gti"}}));
    assert_eq!(reply.invalid_fields(), ["task.workspace_policy"]);
    assert!(reply.text.contains("valid: git, mount, empty, bundle"), "{}", reply.text);
    assert_eq!(client.put("/platform", json!({"workspace_policy": "x"})).invalid_fields(), ["workspace_policy"]);
    assert_eq!(
        client.put("/projects/p", json!({"workspace_policy": {"type": "x"}})).invalid_fields(),
        ["workspace_policy.type"]
    );
    assert_eq!(
        client.put("/agent-types/a/workspace-config", json!({"workspace_policy": 1})).invalid_fields(),
        ["workspace_policy"]
    );
}

#[test]
fn p2_record_kept_and_audited() {
    let server = server();
    server.client().put("/platform", json!({"workspace_policy": "empty"})).expect(200);
    agent_type(&server, json!({"id": "a", "workspace": {"enabled": true, "provider": "memory"}}));
    let session = server.session(json!({"agent_type": "a"}));
    let policy = &session["workspace"]["policy"];
    let chain = json!({"task": null, "role": null, "project": null, "platform": "empty"});
    assert_eq!((&policy["policy"], &policy["source"], &policy["chain"]), (&json!("empty"), &json!("platform"), &chain));
    let id = session["id"].as_str().unwrap();
    let audit = server.client().get(&format!("/audit?session={id}&type=policy_resolved")).expect(200);
    let entry = &audit["items"][0];
    assert_eq!(entry["detail"]["policy"], "empty", "{entry}");
    assert_eq!((&entry["detail"]["source"], &entry["detail"]["chain"]), (&json!("platform"), &chain));
}

#[test]
fn p2_a_failed_audit_write_fails_the_start() {
    let mut server = server();
    agent_type(&server, json!({"id": "a", "workspace": {"enabled": true, "provider": "memory"}}));
    server.restart(Some("store.audit=return"));
    let reply = server.client().post("/sessions", json!({"agent_type": "a"}));
    assert!(reply.status >= 500, "{}", reply.text);
    reply.problem(503, "unavailable");
    assert_eq!(server.client().get("/sessions").expect(200)["items"], json!([]));
    server.restart(None);
    assert_eq!(server.client().get("/sessions").expect(200)["items"], json!([]));
    server.session(json!({"agent_type": "a"}));
}

#[test]
fn p3_incompatible_is_refused_before_any_effect() {
    let server = server();
    agent_type(
        &server,
        json!({"id": "a", "workspace": {"enabled": true, "provider": "memory"}, "capabilities": {"sandbox": {"workspace_provider": "host"}}}),
    );
    agent_type(
        &server,
        json!({"id": "g", "workspace": {"enabled": true, "provider": "memory"}, "capabilities": {"sandbox": {"workspace_provider": ["guest"]}}}),
    );
    let before = census(&server);
    let git = json!({"agent_type": "a", "task": {"workspace_policy": {"type": "git", "url": REPO}}});
    for path in ["/sessions", "/sessions:plan"] {
        let detail = server.client().post(path, git.clone()).problem(422, "policy_incompatible");
        for word in ["git", "workspace_provider", "guest", "host"] {
            assert!(detail.contains(word), "{word} is not in: {detail}");
        }
    }
    let mount = json!({"agent_type": "g", "task": {"workspace_policy": {"type": "mount", "host_path": "/srv"}}});
    server.client().post("/sessions", mount).problem(422, "policy_incompatible");
    assert_eq!(server.client().get("/sessions").expect(200)["items"], json!([]));
    assert_eq!(census(&server), before);
    let audit = server.client().get("/audit?type=refusal").expect(200);
    assert_eq!(audit["items"].as_array().unwrap().len(), 2, "{audit}");
    server.session(json!({"agent_type": "a", "task": {"workspace_policy": "empty"}}));
}

/// Entries of the home directory and number of processes of the server.
fn census(server: &TestServer) -> (Vec<String>, usize) {
    let mut files: Vec<String> = std::fs::read_dir(server.home())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let pid = server.pid().unwrap();
    let children = std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).ok())
        .map(|children| children.split_whitespace().count())
        .sum();
    (files, children)
}

#[test]
fn p4_a_writable_workspace_exists() {
    let server = server();
    agent_type(
        &server,
        json!({"id": "a", "workspace": {"enabled": true, "provider": "memory", "workspace_policy": "empty"}}),
    );
    let session = server.session(json!({"agent_type": "a"}));
    assert_eq!(session["workspace"]["root"], "/workspace");
    assert_eq!(server.tool(&session, "ls", json!({}))["result"]["entries"], json!([]));
    assert_eq!(server.tool(&session, "write", json!({"path": "/workspace/a", "content": "x"}))["ok"], true);
}

#[test]
fn p5_the_plan_is_shown_and_executed_exactly() {
    let server = server();
    agent_type(
        &server,
        json!({"id": "a", "workspace": {"enabled": true, "provider": "memory", "workspace_policy": "empty", "setup_commands": ["make"]}}),
    );
    let body =
        json!({"agent_type": "a", "task": {"id": "t1", "context": {"pull_request_number": 42, "base_branch": "main"}}});
    let planned = plan(&server, body.clone());
    let names: Vec<&str> = planned["plan"]["actions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|action| action["action"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["write_task_context", "run_setup_command"]);
    assert_eq!(planned["plan"]["env"]["STEAD_TASK_ID"], "t1");
    assert_eq!(server.client().get("/sessions").expect(200)["items"], json!([]));

    let session = server.session(body);
    let id = session["id"].as_str().unwrap();
    let events = server
        .client()
        .send("GET", &format!("/sessions/{id}/events"), &[("accept", "application/json")], None)
        .expect(200);
    let started: Vec<&str> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == "InitStepStarted")
        .map(|event| event["action"].as_str().unwrap())
        .collect();
    assert_eq!(started, names);
    // The memory provider has no shell: the setup fails with a warning, but the session is active.
    assert!(
        session["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "setup_failed"),
        "{session}"
    );
    let context = server.tool(&session, "read", json!({"path": ".stead/task.json"}));
    assert!(context["result"]["content"].as_str().unwrap().contains("42"), "{context}");
    assert_eq!(session["workspace"]["metadata"]["pull_request_number"], 42);
    assert_eq!(session["workspace"]["metadata"]["base_branch"], "main");
}

#[test]
fn p6_empty_carries_no_repository_and_no_credential() {
    let server = server_with(ServerOptions::default().env("GH_TOKEN", "canary-server"));
    let env = json!({
        "STEAD_REPO_URL": "canary", "STEAD_GIT_TOKEN": "canary", "TUIXIU_REPO_URL": "canary", "TUIXIU_GIT_AUTH_MODE": "canary",
        "GH_TOKEN": "canary", "GITHUB_TOKEN": "canary", "GITLAB_TOKEN": "canary", "GITLAB_ACCESS_TOKEN": "canary", "KEPT": "kept",
    });
    let client = server.client();
    client.put("/platform", json!({"env": env})).expect(200);
    client.put("/projects/p", json!({"env": env, "repository_url": REPO})).expect(200);
    agent_type(&server, json!({"id": "a", "env": env, "workspace": {"enabled": true, "provider": "memory"}}));
    let body = json!({
        "agent_type": "a", "project": "p",
        "task": {"workspace_policy": "empty", "env": env, "context": {"repository_url": REPO, "branch": "x"}},
    });
    let planned = plan(&server, body.clone());
    let text = planned["plan"].to_string();
    assert!(!text.contains("canary") && !text.contains(REPO), "{text}");
    assert_eq!(planned["plan"]["env"]["KEPT"], "kept");
    for action in planned["plan"]["actions"].as_array().unwrap() {
        assert!(!["create_workspace", "clone_repository"].contains(&action["action"].as_str().unwrap()), "{action}");
    }
    let session = server.session(body);
    let content = server.tool(&session, "read", json!({"path": ".stead/task.json"}));
    assert!(!content.to_string().contains(REPO), "{content}");
}
