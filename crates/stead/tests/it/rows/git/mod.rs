//! Repositories: rows G1 to G9, against git's own server over HTTP and ssh.

mod clone;
pub(crate) mod credentials;
mod crowd;
mod hostile;
pub(crate) mod lfs;
mod lfs_push;
mod mirror;
mod project_credentials;
mod recovery;
mod remote;
pub(crate) mod ssh;
mod submodules;
mod tool;

use serde_json::{Value, json};
use stead_testkit::{GitServer, TestServer};

use super::boxes::native;
use super::server;

/// A git server and a Stead server that may access it.
pub(in crate::rows) fn git_server() -> (TestServer, GitServer) {
    let (server, git) = (server(), GitServer::start());
    allow(&server, &git);
    (server, git)
}

/// A server with these `[git]` settings.
pub(in crate::rows) fn with_settings(git: &GitServer, settings: &str) -> TestServer {
    let mut server = server();
    std::fs::write(server.home().join("stead.toml"), format!("[git]\n{settings}")).unwrap();
    server.restart(None);
    allow(&server, git);
    server
}

pub(in crate::rows) fn allow(server: &TestServer, git: &GitServer) {
    server.client().put("/platform", json!({"allowed_git_hosts": [git.host()]})).expect(200);
}

/// Declares the agent type `g`: native boxes, a workspace required.
pub(in crate::rows) fn agent(server: &TestServer, more: Value) {
    native::build_init();
    server.agent_type("g", native_workspace(more));
}

/// Gives the agent type `g` another workspace config.
pub(in crate::rows) fn change(server: &TestServer, more: Value) {
    server.client().put("/agent-types/g/workspace-config", native_workspace(more)).expect(200);
}

fn native_workspace(more: Value) -> Value {
    let mut workspace = json!({"enabled": true, "provider": "native", "require_workspace": true});
    workspace.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    workspace
}

/// Starts a session of `g` whose task has this context.
pub(in crate::rows) fn start(server: &TestServer, context: Value) -> Value {
    server.session(json!({"agent_type": "g", "task": {"context": context}}))
}

/// Starts a session that must become active and not degraded.
#[track_caller]
pub(in crate::rows) fn active(server: &TestServer, context: Value) -> Value {
    let session = start(server, context);
    assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(false)), "{session}");
    session
}

/// Runs a command in the box, which must succeed, and returns its output.
#[track_caller]
pub(in crate::rows) fn sh(server: &TestServer, session: &Value, command: &str) -> String {
    let answer = server.tool(session, "bash", json!({"command": command}));
    let result = &answer["result"];
    assert_eq!((&answer["ok"], &result["exit_code"]), (&json!(true), &json!(0)), "{answer}");
    result["stdout"].as_str().unwrap().trim_end().to_owned()
}

/// Returns code and message of the first provider failure.
#[track_caller]
pub(in crate::rows) fn failed(session: &Value) -> (String, String) {
    assert_eq!(session["status"], "failed", "{session}");
    let failure = &session["workspace"]["failures"][0];
    (failure["code"].as_str().unwrap().to_owned(), failure["message"].as_str().unwrap().to_owned())
}

/// Calls the git tool; the call must not be refused.
#[track_caller]
pub(in crate::rows) fn git(server: &TestServer, session: &Value, command: &str, args: &[&str]) -> Value {
    server.tool(session, "git", json!({"command": command, "args": args}))
}

/// Calls the git tool, which must succeed, and returns git's output.
#[track_caller]
pub(in crate::rows) fn git_ok(server: &TestServer, session: &Value, command: &str, args: &[&str]) -> String {
    let answer = git(server, session, command, args);
    assert_eq!((&answer["ok"], &answer["result"]["exit_code"]), (&json!(true), &json!(0)), "{answer}");
    answer["result"]["output"].as_str().unwrap().to_owned()
}
