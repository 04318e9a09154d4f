//! A mirror has objects that some credential once fetched. It serves a session only if the remote
//! accepts the session's current credential.

use serde_json::{Value, json};
use stead_testkit::{GitServer, TestServer};

use crate::rows::git::credentials::{CANARY, with_token};
use crate::rows::git::{failed, lfs};

/// Agent types without boxes: `plain`, and `all` with submodules and Git LFS.
fn agent_types(server: &TestServer) {
    let workspace = json!({"enabled": true, "provider": "memory", "require_workspace": true});
    server.agent_type("plain", workspace.clone());
    let mut all = workspace;
    all["git"] = json!({"submodules": true, "lfs": true});
    server.agent_type("all", all);
}

fn begin(server: &TestServer, agent_type: &str, url: &str, reference: &str) -> Value {
    let context = json!({"repository_url": url, "branch": reference});
    server.session(json!({"agent_type": agent_type, "task": {"context": context}}))
}

#[track_caller]
fn assert_served(session: &Value) {
    assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(false)), "{session}");
}

#[track_caller]
fn assert_locked_out(session: &Value) {
    let (code, message) = failed(session);
    assert!(code == "git_unauthorised" || message.contains("refused access"), "{code}: {message}");
}

#[test]
fn a_revoked_credential_is_no_longer_served_from_the_mirror() {
    let git = GitServer::start();
    let commit = git.repository("app", &[("a", "private\n")]).remote("main");
    let server = with_token(&git);
    agent_types(&server);
    for reference in ["main", &commit] {
        assert_served(&begin(&server, "plain", &git.url("app"), reference));
    }
    // The host revoked the token. The mirror and the layer still have the commit.
    git.require("bot", "another");
    for reference in ["main", &commit] {
        assert_locked_out(&begin(&server, "plain", &git.url("app"), reference));
    }
    // Control: the same commit with a credential that the host accepts comes from the mirror,
    // without a transfer.
    git.require("bot", CANARY);
    let transfers = git.packs();
    for reference in ["main", &commit] {
        assert_served(&begin(&server, "plain", &git.url("app"), reference));
    }
    assert_eq!(git.packs(), transfers);
    // A new secret of the same account is a new credential.
    std::fs::write(server.home().join("git-token"), "wrong\n").unwrap();
    assert_locked_out(&begin(&server, "plain", &git.url("app"), &commit));
}

#[test]
fn without_a_credential_a_private_mirror_serves_nothing_even_within_the_fresh_time() {
    let git = GitServer::start();
    let commit = git.repository("app", &[("a", "private\n")]).remote("main");
    let mut server = with_token(&git);
    agent_types(&server);
    assert_served(&begin(&server, "plain", &git.url("app"), "main"));
    std::fs::write(server.home().join("stead.toml"), "[git]\nfresh_seconds = 3600\n").unwrap();
    server.restart(None);
    for reference in ["main", &commit] {
        assert_locked_out(&begin(&server, "plain", &git.url("app"), reference));
    }
    assert_eq!(git.packs(), 1, "only the first session transferred anything");
}

#[test]
fn submodules_and_large_files_of_a_private_repository_are_not_served_either() {
    let git = GitServer::start();
    let lib = git.repository("lib", &[("l", "private\n")]);
    let app = lfs::repository(&git, "app", &[("a.bin", b"private")]);
    app.git(&["submodule", "--quiet", "add", "../lib", "lib"]);
    let commit = app.commit(&[], "with a submodule");
    let server = with_token(&git);
    agent_types(&server);
    assert_served(&begin(&server, "all", &git.url("app"), &commit));
    git.require("bot", "another");
    for (repository, reference) in [("app", commit.clone()), ("lib", lib.remote("main"))] {
        assert_locked_out(&begin(&server, "all", &git.url(repository), &reference));
    }
    git.require("bot", CANARY);
    assert_served(&begin(&server, "all", &git.url("app"), &commit));
}
