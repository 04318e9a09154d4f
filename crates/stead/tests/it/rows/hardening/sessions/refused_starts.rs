//! Requests that cannot be satisfied are refused with 422 before anything is created: mounts
//! outside the roots, providers that are not configured, network rules that no provider enforces.
//! Each refusal is audited, and the plan gives the same answer.

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::server;

/// Asserts that a start and its plan are refused with this code and leave only the audit record.
#[track_caller]
fn refused(server: &TestServer, body: Value, code: &str) -> String {
    let sessions = || server.client().get("/sessions?limit=500").expect(200)["items"].as_array().unwrap().len();
    let refusals = || {
        let page = server.client().get("/audit?type=refusal&order=newest&limit=500").expect(200);
        page["items"].as_array().unwrap().clone()
    };
    let (before, audited) = (sessions(), refusals().len());
    let planned = server.client().post("/sessions:plan", body.clone()).problem(422, code);
    let detail = server.client().post("/sessions", body).problem(422, code);
    assert_eq!((sessions(), &planned), (before, &detail), "the plan says the same, and no session is made");
    let after = refusals();
    assert_eq!(after.len(), audited + 1, "the refused start is audited, the plan is not");
    assert_eq!(after[0]["detail"]["code"], code, "{}", after[0]);
    detail
}

#[test]
fn a_provider_that_is_not_configured() {
    let server = server();
    server.agent_type("k", json!({"enabled": true, "provider": "kubernetes"}));
    server.agent_type("f", json!({"enabled": true, "provider": "memory", "fallback_provider": "kubernetes"}));
    for id in ["k", "f"] {
        let detail = refused(&server, json!({"agent_type": id}), "provider_not_configured");
        assert!(detail.contains("'kubernetes'") && detail.contains("memory, native, podman"), "{detail}");
    }
    // An unknown provider name is a config error.
    for field in ["provider", "fallback_provider"] {
        let reply = server.client().put("/agent-types/k/workspace-config", json!({ field: "docker" }));
        assert_eq!(reply.invalid_fields(), [field]);
        assert!(reply.text.contains("valid: memory, native, podman"), "{}", reply.text);
    }
    // Control: a provider that is configured is not refused.
    server.agent_type("m", json!({"enabled": true, "provider": "memory"}));
    assert_eq!(server.session(json!({"agent_type": "m"}))["degraded"], false);
}

#[test]
fn a_mount_outside_the_roots() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    for directory in ["allowed/project", "outside"] {
        std::fs::create_dir_all(folder.path().join(directory)).unwrap();
    }
    std::fs::write(folder.path().join("allowed/project/a.txt"), "a\n").unwrap();
    std::fs::write(folder.path().join("allowed/b.tar"), "").unwrap();
    let path = |below: &str| folder.path().join(below).to_str().unwrap().to_owned();
    server.client().put("/platform", json!({"allowed_host_roots": [path("allowed")]})).expect(200);
    let mut made = 0;
    let mut with_mount = |mount: Value| {
        made += 1;
        let id = format!("m{made}");
        server.agent_type(&id, json!({"enabled": true, "provider": "memory", "mounts": [mount]}));
        json!({"agent_type": id})
    };
    for (mount, reason) in [
        (json!({"host_path": path("outside")}), "is outside allowed roots"),
        (json!({"host_path": path("allowed/../outside")}), "is outside allowed roots"),
        (json!({"host_path": path("allowed/nothing")}), "does not exist"),
        (json!({"host_path": path("allowed/project"), "mount_path": "../x"}), "escapes workspace directory"),
        (json!({"host_path": path("allowed/project"), "include_glob": ["["]}), "Invalid glob pattern"),
    ] {
        let body = with_mount(mount);
        let detail = refused(&server, body, "mount_refused");
        assert!(detail.contains(reason), "{detail}");
    }
    // Control: a mount inside the roots is planned and created.
    let body = with_mount(json!({"host_path": path("allowed/project")}));
    let plan = server.client().post("/sessions:plan", body.clone()).expect(200);
    let mount = &plan["workspace"]["mounts"][0];
    assert_eq!((&mount["mount_path"], &mount["mode"]), (&json!("project"), &json!("copy")), "{plan}");
    assert_eq!(mount["judgement"], "allowed", "{plan}");
    assert_eq!(server.session(body.clone())["workspace"]["mounts"][0]["files"], 1);
    // Without roots no mount is allowed.
    server.client().put("/platform", json!({})).expect(200);
    let detail = refused(&server, body, "mount_refused");
    assert!(detail.contains("No allowed host roots configured"), "{detail}");
}

#[test]
fn a_host_directory_or_a_bundle_outside_the_roots() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("allowed")).unwrap();
    std::fs::write(folder.path().join("outside.tar"), "").unwrap();
    let path = |below: &str| folder.path().join(below).to_str().unwrap().to_owned();
    server.client().put("/platform", json!({"allowed_host_roots": [path("allowed")]})).expect(200);
    server.agent_type("n", json!({"enabled": true, "provider": "native"}));
    let task = |policy: Value| json!({"agent_type": "n", "task": {"workspace_policy": policy}});
    for mode in ["overlay", "ro", "rw"] {
        let policy = json!({"type": "mount", "host_path": folder.path().to_str().unwrap(), "mode": mode});
        refused(&server, task(policy), "mount_refused");
    }
    let bundle = json!({"type": "bundle", "source": {"path": path("outside.tar")}});
    let detail = refused(&server, task(bundle), "bundle_refused");
    assert!(detail.contains("is outside allowed roots"), "{detail}");
    // Control: a mount inside the roots is planned.
    let inside = task(json!({"type": "mount", "host_path": path("allowed"), "mode": "ro"}));
    let plan = server.client().post("/sessions:plan", inside).expect(200);
    assert_eq!(plan["workspace"]["mounts"][0]["mode"], "ro", "{plan}");
}

#[test]
fn a_mount_that_only_the_copy_can_judge_is_audited_too() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "more than one byte\n").unwrap();
    let root = folder.path().to_str().unwrap();
    server.client().put("/platform", json!({"allowed_host_roots": [root]})).expect(200);
    let mount = |bytes: u64| json!([{"host_path": root, "mount_path": "m", "max_bytes": bytes}]);
    server.agent_type("over", json!({"enabled": true, "provider": "memory", "mounts": mount(1)}));
    server.agent_type("within", json!({"enabled": true, "provider": "memory", "mounts": mount(100)}));
    let refusals = |session: &Value| {
        let path = format!("/audit?type=refusal&session={}", session["id"].as_str().unwrap());
        server.client().get(&path).expect(200)["items"].as_array().unwrap().clone()
    };
    let session = server.session(json!({"agent_type": "over"}));
    assert_eq!(session["degraded"], true, "{session}");
    let record = &refusals(&session)[0];
    assert_eq!(record["detail"]["code"], "mount_refused", "{record}");
    let within = server.session(json!({"agent_type": "within"}));
    assert!(within["degraded"] == false && refusals(&within).is_empty(), "{within}");
}

#[test]
fn a_network_that_cannot_be_enforced() {
    let server = server();
    let client = server.client();
    let network = json!({"setup": {"allow": ["a.example"]}});
    client.put("/platform", json!({"network": network})).expect(200);
    // A memory workspace has no box, so nothing carries its connections.
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let body = || json!({"agent_type": "a"});
    assert_eq!(server.session(body())["status"], "active", "the platform alone asks for nothing");
    let config = |network: &Value| json!({"enabled": true, "provider": "memory", "network": network});
    client.put("/agent-types/a/workspace-config", config(&network)).expect(200);
    let detail = refused(&server, body(), "network_not_available");
    assert!(detail.starts_with("agent_type.network.setup.allow[0] "), "{detail}");
    assert!(detail.contains("provider 'memory'"), "{detail}");
}

#[test]
fn a_network_that_the_platform_does_not_allow() {
    let server = server();
    let client = server.client();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let config = |network: &Value| json!({"enabled": true, "provider": "memory", "network": network});
    for (network, field) in [
        (json!({"setup": {"mode": "full"}}), "setup.mode"),
        (json!({"agent": {"mode": "allow", "domains": ["a.example"]}}), "agent.domains"),
        (json!({"setup": {"allow": ["a.example"]}}), "setup.allow"),
        (json!({"agent": {"presets": ["pip"]}, "deny": ["b.example"]}), "agent.presets"),
    ] {
        client.put("/agent-types/a/workspace-config", config(&network)).expect(200);
        let detail = refused(&server, json!({"agent_type": "a"}), "network_not_available");
        assert!(detail.starts_with(&format!("agent_type.network.{field} ")), "{detail}");
        client.put("/agent-types/a/workspace-config", config(&json!({}))).expect(200);
        let task = json!({"agent_type": "a", "task": {"network": network}});
        let detail = refused(&server, task, "network_not_available");
        assert!(detail.starts_with(&format!("task.network.{field} ")), "{detail}");
    }
    // Control: without a request for access the session starts.
    let none = json!({"setup": {"mode": "none"}, "agent": {"allow": [], "presets": []}});
    client.put("/agent-types/a/workspace-config", config(&none)).expect(200);
    assert_eq!(server.session(json!({"agent_type": "a", "task": {"network": none}}))["status"], "active");
}

#[test]
fn network_rules_that_are_refused() {
    let server = server();
    let client = server.client();
    client.put("/platform", json!({"network": {"agent": {"allow": ["a.example"]}}})).expect(200);
    for (network, field, part) in [
        (json!({"agent": {"mode": "full"}}), "agent.mode", "platform.network.full"),
        (json!({"agent": {"presets": ["npm"]}}), "agent.presets[0]", "npm = ["),
        (json!({"agent": {"allow": ["service:model"]}}), "agent.allow[0]", "no services"),
    ] {
        server.agent_type("a", json!({"enabled": true, "provider": "memory", "network": network}));
        let detail = refused(&server, json!({"agent_type": "a"}), "network_refused");
        assert!(detail.starts_with(&format!("agent_type.network.{field} ")) && detail.contains(part), "{detail}");
        client.delete("/agent-types/a").expect(204);
    }
    let invalid = json!({"id": "b", "workspace": {"network": {"agent": {"allow": ["https://a.example"]}}}});
    let problem = client.post("/agent-types", invalid).expect(400);
    assert_eq!(problem["errors"][0]["field"], "workspace.network.agent.allow[0]", "{problem}");
}

#[test]
fn an_audit_type_that_does_not_exist() {
    let server = server();
    let reply = server.client().get("/audit?type=bogus");
    assert_eq!(reply.invalid_fields(), ["type"]);
    for word in ["bogus", "refusal", "policy_resolved", "degraded_start", "admin_change"] {
        assert!(reply.text.contains(word), "{word} is not in {}", reply.text);
    }
    server.client().get("/audit?type=admin_change").expect(200);
}

#[test]
fn a_bundle_that_is_not_in_the_store() {
    let server = server();
    server.agent_type("m", json!({"enabled": true, "provider": "memory"}));
    let start = |blob: &str| {
        let policy = json!({"type": "bundle", "source": {"blob": blob}});
        json!({"agent_type": "m", "task": {"workspace_policy": policy}})
    };
    let absent = format!("sha256:{}", "0".repeat(64));
    let detail = refused(&server, start(&absent), "bundle_refused");
    assert!(detail.contains("not in the blob store"), "{detail}");
    let answer = server.client().post("/sessions:plan", start(&absent)).expect(422);
    assert_eq!(answer["parameters"], json!({"resource": "blob", "id": absent}));
    // Control: an uploaded bundle is accepted.
    let stored = server.client().bytes("POST", "/blobs", &[], &[0; 1024]).reply().expect(201);
    server.client().post("/sessions:plan", start(stored["digest"].as_str().unwrap())).expect(200);
}
