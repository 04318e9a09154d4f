//! The policy layers choose a session's repository, and the session warns about one that it does
//! not use.

use std::process::Command;

use serde_json::{Value, json};
use stead_testkit::{GitServer, TestServer};

use crate::rows::server;

struct Host {
    server: TestServer,
    git: GitServer,
}

impl Host {
    fn new() -> Self {
        let (server, git) = (server(), GitServer::start());
        for name in ["fixed", "project", "task"] {
            git.repository(name, &[("name", &format!("{name}\n"))]);
        }
        let host = Self { server, git };
        host.platform(json!({}));
        host
    }

    fn platform(&self, more: Value) {
        let mut platform = json!({"allowed_git_hosts": [self.git.host()]});
        platform.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.server.client().put("/platform", platform).expect(200);
    }

    fn agent_type(&self, id: &str, more: Value) {
        let mut workspace = json!({"enabled": true, "provider": "memory", "require_workspace": true});
        workspace.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.server.agent_type(id, workspace);
    }

    fn fixed(&self) -> Value {
        json!({"repo_source": {"type": "fixed", "url": self.git.url("fixed")}})
    }

    /// Returns the name of the checked-out repository, the codes of the repository warnings and the
    /// session.
    #[track_caller]
    fn start(&self, body: Value) -> (Option<String>, Vec<String>, Value) {
        let session = self.server.session(body);
        assert_eq!(session["status"], "active", "{session}");
        let read = self.server.tool(&session, "read", json!({"path": "name"}));
        let name = read["result"]["content"].as_str().map(|text| text.trim().to_owned());
        let warnings = session["warnings"].as_array().unwrap().iter();
        let codes = warnings.map(|warning| warning["code"].as_str().unwrap().to_owned());
        // The memory provider also warns about limits and about missing history.
        (name, codes.filter(|code| code.ends_with("repository") || code.starts_with("repository")).collect(), session)
    }
}

#[test]
fn a_fixed_repository_is_not_overridden_by_the_platforms_empty() {
    let host = Host::new();
    host.agent_type("fixed", host.fixed());
    host.agent_type("plain", json!({}));
    host.platform(json!({"workspace_policy": "empty"}));
    let (name, codes, session) = host.start(json!({"agent_type": "fixed"}));
    assert_eq!((name.as_deref(), codes), (Some("fixed"), vec![]), "{session}");
    let policy = &session["workspace"]["policy"];
    assert_eq!((&policy["source"], &policy["chain"]["role"]), (&json!("role"), &json!("git")), "{policy}");
    // Control: the platform's setting applies if no stronger layer sets one.
    let (name, _, session) = host.start(json!({"agent_type": "plain"}));
    assert_eq!((name, &session["workspace"]["policy"]["source"]), (None, &json!("platform")));
}

#[test]
fn a_projects_repository_and_branch_stand_in_for_the_tasks() {
    let host = Host::new();
    let url = host.git.url("project");
    let work = host.git.repository("branched", &[("name", "main\n")]);
    work.git(&["checkout", "-q", "-b", "trunk"]);
    work.commit(&[("name", "trunk\n")], "trunk");
    work.git(&["push", "-q", "origin", "trunk"]);
    host.agent_type("plain", json!({}));
    let put = |project: Value| host.server.client().put("/projects/p", project).expect(200);
    put(json!({"repository_url": url}));
    let (name, codes, session) = host.start(json!({"agent_type": "plain", "project": "p"}));
    assert_eq!((name.as_deref(), codes), (Some("project"), vec![]), "{session}");
    assert_eq!(session["workspace"]["policy"]["source"], "project", "{session}");
    put(json!({"repository_url": host.git.url("branched"), "default_branch": "trunk"}));
    let (name, _, session) = host.start(json!({"agent_type": "plain", "project": "p"}));
    assert_eq!(name.as_deref(), Some("trunk"), "{session}");
    // The task's own repository and branch take precedence.
    let context = json!({"repository_url": host.git.url("task")});
    let (name, codes, _) = host.start(json!({"agent_type": "plain", "project": "p", "task": {"context": context}}));
    assert_eq!((name.as_deref(), codes), (Some("task"), vec![]));
    let context = json!({"branch": "master"});
    let body = json!({"agent_type": "plain", "project": "p", "task": {"context": context}});
    let planned = host.server.client().post("/sessions:plan", body).expect(200);
    assert_eq!(planned["workspace"]["plan"]["actions"][1]["reference"], "master", "{planned}");
    // Control: without a project there is no repository.
    assert_eq!(host.start(json!({"agent_type": "plain"})).0, None);
}

#[test]
fn a_repository_that_is_not_used_is_a_warning() {
    let host = Host::new();
    host.agent_type("none", json!({"repo_source": {"type": "none"}}));
    host.agent_type("fixed", host.fixed());
    host.agent_type("plain", json!({}));
    let url = host.git.url("task");
    let task = |id: &str, policy: Value| {
        let context = json!({"repository_url": url});
        json!({"agent_type": id, "task": {"context": context, "workspace_policy": policy}})
    };
    for (body, checked_out) in [
        (task("none", Value::Null), None),
        (task("plain", json!("empty")), None),
        (task("fixed", Value::Null), Some("fixed")),
    ] {
        let (name, codes, session) = host.start(body);
        assert_eq!((name.as_deref(), codes), (checked_out, vec!["repository_not_used".to_owned()]), "{session}");
        let warning = session["warnings"][0]["message"].as_str().unwrap();
        assert!(warning.contains("the task names") && !warning.contains(&url), "{warning}");
    }
    // Control: a repository that is used gives no warning.
    let (name, codes, _) = host.start(task("plain", Value::Null));
    assert_eq!((name.as_deref(), codes), (Some("task"), vec![]));
}

#[test]
fn git_without_a_repository_is_an_empty_workspace_with_a_warning() {
    let host = Host::new();
    host.agent_type("git", json!({"workspace_policy": "git"}));
    let (name, codes, session) = host.start(json!({"agent_type": "git"}));
    assert_eq!((name, codes), (None, vec!["no_repository".to_owned()]), "{session}");
    assert_eq!(host.server.tool(&session, "ls", json!({}))["result"]["entries"], json!([]));
    // A branch or a pull request without a repository gives a warning too.
    host.agent_type("plain", json!({}));
    for context in [json!({"branch": "main"}), json!({"pull_request_number": 7})] {
        let (name, codes, session) = host.start(json!({"agent_type": "plain", "task": {"context": context}}));
        assert_eq!((name, codes), (None, vec!["no_repository".to_owned()]), "{session}");
    }
    // Control: with a repository there is no warning.
    let context = json!({"repository_url": host.git.url("task")});
    assert_eq!(host.start(json!({"agent_type": "git", "task": {"context": context}})).1, Vec::<String>::new());
}

#[test]
fn the_command_line_shows_the_warning() {
    let host = Host::new();
    host.agent_type("none", json!({"repo_source": {"type": "none"}}));
    let create = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stead"));
        command.env_clear().env("STEAD_HOME", host.server.home()).args(["session", "create", "-a", "none"]).args(more);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, printed) = create(&["--repo", &host.git.url("task")]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.starts_with("warning: repository_not_used: "), "{printed}");
    assert_eq!(create(&[]), (Some(0), String::new()));
}
