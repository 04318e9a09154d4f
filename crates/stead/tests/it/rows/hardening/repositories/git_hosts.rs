//! Errors for bad answers of git hosts, and the hosts that the platform can list.

use serde_json::json;
use stead_testkit::Fault;

use crate::rows::git::{active, agent, failed, git_server, start};
use crate::rows::server;

#[test]
fn a_web_page_instead_of_a_repository_has_an_error_of_its_own() {
    let (server, git) = git_server();
    git.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    git.fault(Fault::Page("<!DOCTYPE html><html><body>Please log in</body></html>".to_owned()));
    let (code, message) = failed(&start(&server, json!({"repository_url": git.url("app")})));
    assert_eq!(code, "git_not_git", "{message}");
    assert!(message.contains("login page") && message.contains("credential"), "{message}");
    // Control: the same URL when the host answers with git.
    git.fault(Fault::None);
    active(&server, json!({"repository_url": git.url("app")}));
}

#[test]
fn g4_a_repository_of_plain_files_is_refused_and_leaves_no_object() {
    let (server, git) = git_server();
    let repository = git.repository("app", &[("a", "1\n")]);
    let commit = repository.remote("refs/heads/main");
    agent(&server, json!({}));
    git.fault(Fault::Dumb);
    let url = git.url("app");
    // A commit needs no listing of the branches, so git gets the objects at once. With a depth git
    // itself refuses dumb HTTP, without one it fetches everything.
    let policy = |more: serde_json::Value| {
        let mut policy = json!({"type": "git", "url": url});
        policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        policy
    };
    for policy in [policy(json!({})), policy(json!({"ref": commit})), policy(json!({"ref": commit, "depth": i32::MAX}))]
    {
        let (code, message) = failed(&server.session(json!({"agent_type": "g", "task": {"workspace_policy": policy}})));
        assert_eq!(code, "git_dumb_http", "{message}");
        assert!(message.contains("smart HTTP"), "{message}");
    }
    let objects = || -> Vec<String> {
        let found = std::process::Command::new("find")
            .arg(server.home().join("mirrors"))
            .args(["-path", "*/objects/*", "-type", "f"])
            .output()
            .unwrap();
        String::from_utf8(found.stdout).unwrap().lines().map(str::to_owned).collect()
    };
    assert_eq!(objects(), Vec::<String>::new());
    // Control: the same URL when the host speaks git's smart protocol.
    git.fault(Fault::None);
    active(&server, json!({"repository_url": url}));
    assert!(!objects().is_empty(), "the mirror is elsewhere, so nothing was tested");
}

#[test]
fn a_wildcard_is_not_a_git_host() {
    let server = server();
    for wrong in ["*", "*.example.org", "https://git.example.org", "git.example.org/team", "a b", "-x", "host:port"] {
        let refused = server.client().put("/platform", json!({"allowed_git_hosts": [wrong]}));
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text);
        assert!(
            refused.text.contains("allowed_git_hosts") && refused.text.contains("not a host name"),
            "{}",
            refused.text
        );
    }
    let hosts = json!(["git.example.org", "git.lan:8080", "10.0.0.1", "[::1]:9418", "[fd00::1]", "::1"]);
    server.client().put("/platform", json!({"allowed_git_hosts": hosts})).expect(200);
}
