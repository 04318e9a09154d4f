//! Misbehaving remotes: each failure has its own error with git's reason, and every wait is
//! bounded.

use serde_json::json;
use stead_testkit::{Fault, GitServer, TestServer};

use super::{active, agent, failed, git_server, start};
use crate::rows::server;

/// A server with a short git timeout.
fn impatient() -> (TestServer, GitServer) {
    let (mut server, git) = (server(), GitServer::start());
    std::fs::write(server.home().join("stead.toml"), "[git]\ntimeout_seconds = 3\ntries = 2\nfresh_seconds = 0\n")
        .unwrap();
    server.restart(None);
    super::allow(&server, &git);
    (server, git)
}

#[test]
fn g4_each_failure_has_its_name() {
    let (server, git) = impatient();
    git.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let (code, message) = failed(&start(&server, json!({"repository_url": git.url("nothing")})));
    assert_eq!(code, "git_not_found", "{message}");
    assert!(message.contains("not found"), "{message}");
    let (code, message) = failed(&start(&server, json!({"repository_url": git.url("app"), "branch": "nope"})));
    assert_eq!(code, "git_ref_missing", "{message}");
    assert!(message.contains("'nope'"), "{message}");
    let absent = "1234567890123456789012345678901234567890";
    let (code, message) = failed(&start(&server, json!({"repository_url": git.url("app"), "branch": absent})));
    assert_eq!(code, "git_ref_missing", "{message}");
    for (fault, expect) in [
        (Fault::Status(403), "git_unauthorised"),
        (Fault::Status(500), "git_unreachable"),
        (Fault::Cut(400), "git_unreachable"),
        (Fault::Silent, "git_timeout"),
    ] {
        git.fault(fault.clone());
        let (code, message) = failed(&start(&server, json!({"repository_url": git.url("app")})));
        assert_eq!(code, expect, "{fault:?}: {message}");
    }
    git.fault(Fault::None);
    git.require("u", "p");
    let (code, message) = failed(&start(&server, json!({"repository_url": git.url("app")})));
    assert_eq!(code, "git_unauthorised", "{message}");
    assert!(message.contains("no credential is configured"), "{message}");
}

#[test]
fn g4_what_passes_is_tried_again() {
    let (server, git) = git_server();
    git.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    git.fault(Fault::Busy(1));
    active(&server, json!({"repository_url": git.url("app")}));
    assert!(git.requests().len() > 2);
}

#[test]
fn a_redirect_is_not_followed() {
    let (server, git) = git_server();
    git.repository("app", &[("a", "1\n")]);
    let other = GitServer::start();
    other.repository("app", &[("a", "evil\n")]);
    git.fault(Fault::Redirect(format!("http://{}", other.host())));
    agent(&server, json!({}));
    let (code, message) = failed(&start(&server, json!({"repository_url": git.url("app")})));
    assert_eq!(code, "git_redirected", "{message}");
    assert!(other.requests().is_empty(), "nobody went there");
}

#[test]
fn a_failure_without_a_needed_workspace_starts_degraded_and_says_why() {
    let (server, git) = git_server();
    super::native::build_init();
    server.agent_type("g", json!({"enabled": true, "provider": "native"}));
    let session = start(&server, json!({"repository_url": git.url("nothing")}));
    assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(true)), "{session}");
    assert!(session["warnings"].to_string().contains("no such repository"), "{session}");
}
