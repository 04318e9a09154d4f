//! Degraded starts and fallbacks appear in the session, the audit log, the server log and the
//! metrics.

use std::process::{Command, Output};

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer};

use crate::rows::server_with;

/// A server with an unreachable Podman, so that every `podman` workspace fails.
fn without_podman() -> TestServer {
    server_with(ServerOptions::default().env("PODMAN_BASE_URL", "unix:///nonexistent/podman.sock"))
}

fn stead(server: &TestServer, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
    command.env_clear().env("STEAD_HOME", server.home()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let Output { status, stdout, stderr } = command.args(args).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn codes(session: &Value) -> Vec<&str> {
    session["warnings"].as_array().unwrap().iter().map(|warning| warning["code"].as_str().unwrap()).collect()
}

fn audited(server: &TestServer, session: &Value, kind: &str) -> Vec<Value> {
    let path = format!("/audit?session={}&type={kind}", session["id"].as_str().unwrap());
    server.client().get(&path).expect(200)["items"].as_array().unwrap().clone()
}

/// The value of a counter, which must exist.
fn counted(server: &TestServer, metric: &str) -> u64 {
    let text = server.client().get("/metrics").text;
    let line = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' ').map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {metric} in {text}")).parse().unwrap()
}

#[test]
fn a_degraded_start_is_reported_everywhere() {
    let server = without_podman();
    assert_eq!(counted(&server, "stead_degraded_sessions_total"), 0);
    assert_eq!(counted(&server, "stead_fallback_sessions_total"), 0);
    let limits = json!({"cpu": "1", "memory": "64M"});
    server.agent_type("d", json!({"enabled": true, "provider": "podman", "resource_limits": limits}));
    server.agent_type("fine", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "d"}));
    assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(true)), "{session}");
    // There is no warning about a provider that was not used.
    assert_eq!(codes(&session), ["workspace_unavailable"], "{session}");
    let record = &audited(&server, &session, "degraded_start")[0];
    assert!(record["detail"]["message"].as_str().unwrap().contains("podman"), "{record}");
    let id = session["id"].as_str().unwrap();
    let logged = server.log().lines().any(|line| line.contains("started degraded") && line.contains(id));
    assert!(logged, "{}", server.log());
    assert_eq!(counted(&server, "stead_degraded_sessions_total"), 1);
    let show = std::process::Command::new(env!("CARGO_BIN_EXE_stead"))
        .arg("--home")
        .arg(server.home())
        .args(["session", "show", id])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&show.stdout).contains("active (degraded)"), "{show:?}");
    let prompt = server.client().get(&format!("/sessions/{id}/prompt")).expect(200).to_string();
    assert!(prompt.contains("workspace_unavailable"), "{prompt}");

    // A session with its workspace has none of these.
    let fine = server.session(json!({"agent_type": "fine"}));
    assert_eq!((&fine["degraded"], codes(&fine)), (&json!(false), vec!["limit_not_enforced"]), "{fine}");
    assert!(audited(&server, &fine, "degraded_start").is_empty());
    assert!(!server.log().lines().any(|line| line.contains("degraded") && line.contains(fine["id"].as_str().unwrap())));
}

#[test]
fn the_command_line_ends_with_3_for_a_degraded_session() {
    let server = without_podman();
    server.agent_type("d", json!({"enabled": true, "provider": "podman"}));
    server.agent_type("fine", json!({"enabled": true, "provider": "memory"}));
    server.agent_type("required", json!({"enabled": true, "provider": "podman", "require_workspace": true}));
    // Plain output: the id on standard output, the reason on standard error.
    let (code, out, err) = stead(&server, &["session", "create", "-a", "d"]);
    assert_eq!(code, Some(3), "{err}");
    assert!(out.starts_with("ses_") && out.lines().count() == 1, "{out}");
    assert!(err.starts_with(&format!("error: session {} started degraded", out.trim())), "{err}");
    assert!(err.contains("because no provider could make the workspace") && err.contains("podman"), "{err}");
    // JSON output: the session on standard output, a problem on standard error.
    let (code, out, err) = stead(&server, &["--json", "session", "create", "-a", "d"]);
    let (session, problem): (Value, Value) = (serde_json::from_str(&out).unwrap(), serde_json::from_str(&err).unwrap());
    assert_eq!((code, &session["degraded"], &problem["code"]), (Some(3), &json!(true), &json!("degraded")), "{err}");
    // Controls: a session with its workspace exits with 0 silently, a failed one with 1.
    let (code, _, err) = stead(&server, &["session", "create", "-a", "fine"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert_eq!(stead(&server, &["session", "create", "-a", "required"]).0, Some(1));
}

#[test]
fn a_fallback_is_a_warning_with_the_reason() {
    let server = without_podman();
    let workspace = json!({
        "enabled": true, "provider": "podman", "fallback_provider": "memory",
        "resource_limits": {"cpu": "1"},
    });
    server.agent_type("f", workspace.clone());
    let session = server.session(json!({"agent_type": "f"}));
    assert_eq!((&session["degraded"], &session["workspace"]["provider"]), (&json!(false), &json!("memory")));
    // The warning about limits names only the provider that is used.
    assert_eq!(codes(&session), ["provider_fallback", "limit_not_enforced"], "{session}");
    let output = session["warnings"][0]["message"].as_str().unwrap();
    assert!(output.contains("'memory'") && output.contains("'podman' failed: "), "{output}");
    assert!(session["warnings"][1]["message"].as_str().unwrap().contains("'memory'"), "{session}");
    assert_eq!(audited(&server, &session, "provider_fallback").len(), 1);
    assert_eq!(counted(&server, "stead_fallback_sessions_total"), 1);

    // The platform's fallback applies if the agent type names none; without both there is none.
    server.client().put("/platform", json!({"defaults": {"fallback_provider": "memory"}})).expect(200);
    server.agent_type("plain", json!({"enabled": true, "provider": "podman", "fallback_provider": null}));
    let session = server.session(json!({"agent_type": "plain"}));
    assert_eq!(session["workspace"]["provider"], "memory", "{session}");
    server.client().put("/platform", json!({})).expect(200);
    assert_eq!(server.session(json!({"agent_type": "plain"}))["degraded"], true);
    // The platform can make a workspace required, too.
    server.client().put("/platform", json!({"defaults": {"require_workspace": true}})).expect(200);
    assert_eq!(server.session(json!({"agent_type": "plain"}))["status"], "failed");
}

#[test]
fn a_plan_tells_what_the_session_would_be() {
    let server = without_podman();
    let workspace = |provider: &str, fallback: Value| {
        json!({
            "enabled": true, "provider": provider, "fallback_provider": fallback,
            "tools": ["bash", "ls"], "resource_limits": {"cpu": "1"},
        })
    };
    server.agent_type("f", workspace("podman", json!("memory")));
    server.agent_type("d", workspace("podman", Value::Null));
    server.agent_type("m", workspace("memory", Value::Null));
    let plan =
        |id: &str| server.client().post("/sessions:plan", json!({"agent_type": id})).expect(200)["workspace"].clone();

    let fallback = plan("f");
    assert_eq!((&fallback["providers"], &fallback["provider"]), (&json!(["podman", "memory"]), &json!("memory")));
    let passed = &fallback["passed_over"][0];
    assert_eq!(passed["provider"], "podman", "{fallback}");
    assert!(passed["reason"].as_str().unwrap().contains("cannot reach Podman"), "{fallback}");
    // The memory provider has no shell and enforces only the disk limit.
    assert_eq!(
        (&fallback["tools"], &fallback["limits"]["enforced"]),
        (&json!(["ls", "stat"]), &json!(["disk"])),
        "{fallback}"
    );
    assert_eq!(fallback["warnings"][0]["code"], "limit_not_enforced", "{fallback}");

    let degraded = plan("d");
    assert_eq!((&degraded["provider"], &degraded["tools"]), (&Value::Null, &json!([])), "{degraded}");
    assert!(degraded["warnings"].to_string().contains("would start degraded"), "{degraded}");

    // Control: an available provider is not passed over.
    let memory = plan("m");
    assert_eq!((&memory["provider"], &memory["passed_over"]), (&json!("memory"), &json!([])), "{memory}");
    let (code, out, _) = stead(&server, &["plan", "-a", "f"]);
    assert!(code == Some(0) && out.contains("not podman: ") && out.contains("cpu 1 (not enforced)"), "{out}");
}

#[test]
fn a_plan_names_the_limits_that_would_hold() {
    crate::rows::build_init();
    let server = without_podman();
    let limits = json!({"cpu": "1", "memory": "256M", "disk": "32M", "pids": 64});
    server.agent_type("n", json!({"enabled": true, "provider": "native", "resource_limits": limits}));
    let plan = server.client().post("/sessions:plan", json!({"agent_type": "n"})).expect(200)["workspace"].clone();
    let session = server.session(json!({"agent_type": "n"}));
    // The plan names the limits that the session then enforces, whatever this host supports.
    assert_eq!(plan["limits"]["enforced"], session["workspace"]["limits"]["enforced"], "{plan} {session}");
    let warned = |value: &Value| value["warnings"].to_string().contains("limit_not_enforced");
    assert_eq!(warned(&plan), warned(&session), "{plan} {session}");
}

#[test]
fn sessions_without_a_workspace_take_no_capacity() {
    let options = ServerOptions::default()
        .env("WORKSPACE_MAX_CONCURRENT", "1")
        .env("PODMAN_BASE_URL", "unix:///nonexistent/podman.sock");
    let server = server_with(options);
    server.agent_type("off", json!({"enabled": false}));
    server.agent_type("degraded", json!({"enabled": true, "provider": "podman"}));
    server.agent_type("boxed", json!({"enabled": true, "provider": "memory"}));
    for _ in 0..3 {
        server.session(json!({"agent_type": "off"}));
    }
    assert_eq!(server.session(json!({"agent_type": "degraded"}))["degraded"], true);
    let with_workspace = server.session(json!({"agent_type": "boxed"}));
    assert_eq!(with_workspace["status"], "active", "{with_workspace}");
    // Control: the session with a workspace uses the whole capacity.
    server.client().post("/sessions", json!({"agent_type": "boxed"})).problem(429, "capacity");
    server.session(json!({"agent_type": "off"}));
}
