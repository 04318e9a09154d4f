//! G7 and G8: the `git` tool.

use serde_json::json;

use super::{active, agent, git, git_ok, git_server, sh};

#[test]
fn g7_from_status_to_push() {
    let (server, git_host) = git_server();
    let repository = git_host.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "main"}));
    assert!(git_ok(&server, &session, "status", &[]).contains("working tree clean"));
    sh(&server, &session, "echo 2 > a; echo new > b");
    assert!(git_ok(&server, &session, "diff", &[]).contains("+2"));
    git_ok(&server, &session, "add", &["-A"]);
    git_ok(&server, &session, "commit", &["-m", "$(touch pwn); `touch pwn`"]);
    assert_eq!(sh(&server, &session, "ls; git log -1 --format=%s"), "a\nb\n$(touch pwn); `touch pwn`");
    assert!(git_ok(&server, &session, "log", &["--oneline"]).contains("touch pwn"));
    git_ok(&server, &session, "checkout", &["-b", "feature"]);
    assert!(git_ok(&server, &session, "branch", &[]).contains("* feature"));
    git_ok(&server, &session, "push", &["-u", "origin", "feature"]);
    assert_eq!(repository.remote("feature"), sh(&server, &session, "git rev-parse HEAD"));
    // A second push goes on from there.
    sh(&server, &session, "echo 3 > a");
    git_ok(&server, &session, "commit", &["-a", "-m", "three"]);
    git_ok(&server, &session, "push", &[]);
    assert_eq!(repository.remote("feature"), sh(&server, &session, "git rev-parse HEAD"));
}

#[test]
fn g7_pull_goes_forward_and_only_forward() {
    let (server, git_host) = git_server();
    let repository = git_host.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "main"}));
    // What a branch stands for is not asked again for a moment.
    std::thread::sleep(std::time::Duration::from_secs(6));
    let two = repository.commit(&[("a", "2\n")], "two");
    let pulled = git_ok(&server, &session, "pull", &[]);
    assert!(pulled.contains(&two), "{pulled}");
    assert_eq!(sh(&server, &session, "cat a; git rev-parse HEAD; git status --porcelain"), format!("2\n{two}"));
    sh(&server, &session, "echo mine > c; git add c");
    git_ok(&server, &session, "commit", &["-m", "mine"]);
    std::thread::sleep(std::time::Duration::from_secs(6));
    repository.commit(&[("a", "3\n")], "three");
    let refused = git(&server, &session, "pull", &[]);
    assert_ne!(refused["result"]["exit_code"], json!(0), "{refused}");
    let refused = git(&server, &session, "push", &[]);
    assert_eq!(refused["error"]["code"], "git_push_refused", "{refused}");
    let refused = git(&server, &session, "push", &["--force"]);
    assert_eq!(refused["error"]["code"], "git_push_refused", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("allow_force_push"), "{refused}");
}

#[test]
fn g7_where_a_push_may_go_is_the_agent_types_word() {
    let (server, git_host) = git_server();
    let repository = git_host.repository("app", &[("a", "1\n")]);
    repository.git(&["checkout", "-q", "-b", "feature"]);
    repository.commit(&[("b", "1\n")], "feature");
    let main = repository.remote("main");
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "feature"}));
    let refused = git(&server, &session, "push", &["origin", "feature:main"]);
    assert_eq!(refused["error"]["code"], "git_push_refused", "{refused}");
    let elsewhere = git(&server, &session, "push", &[&git_host.url("other"), "feature"]);
    assert_eq!(elsewhere["error"]["code"], "invalid_argument", "{elsewhere}");
    assert_eq!(repository.remote("main"), main);
    server
        .client()
        .put(
            "/agent-types/g/workspace-config",
            json!({"enabled": true, "provider": "native", "git": {"push_branches": ["agent/*"]}}),
        )
        .expect(200);
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "feature"}));
    let refused = git(&server, &session, "push", &[]);
    assert_eq!(refused["error"]["code"], "git_push_refused", "{refused}");
    git_ok(&server, &session, "push", &["feature:agent/one"]);
    assert_eq!(repository.remote("agent/one"), repository.remote("feature"));
}

#[test]
fn g8_the_agents_repository_runs_nothing_outside() {
    let (server, git_host) = git_server();
    git_host.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "main"}));
    let canary = std::env::temp_dir().join(format!("stead-g8-{}", std::process::id()));
    let trap = format!("touch {}", canary.display());
    sh(
        &server,
        &session,
        &format!(
            "mkdir -p .git/hooks && for h in pre-commit post-checkout pre-push post-merge reference-transaction post-index-change; do printf '#!/bin/sh\\n{trap}; touch /workspace/hooked\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done"
        ),
    );
    sh(
        &server,
        &session,
        &format!(
            "git config core.fsmonitor '{trap}'; git config alias.st '!{trap}'; git config core.sshCommand '{trap}'; git config diff.external '{trap}'; git config uploadpack.packObjectsHook '{trap}'; git config remote.origin.url 'ext::sh -c {}'; git config core.gitProxy '{trap}'; git config credential.helper '!{trap}'",
            "touch%20x"
        ),
    );
    sh(&server, &session, "echo 2 > a");
    git_ok(&server, &session, "diff", &[]);
    git_ok(&server, &session, "commit", &["-a", "-m", "two"]);
    git_ok(&server, &session, "checkout", &["-b", "x"]);
    git_ok(&server, &session, "fetch", &["main"]);
    git_ok(&server, &session, "push", &[]);
    assert!(!canary.exists(), "something ran outside the box");
    assert_eq!(sh(&server, &session, "ls hooked 2>/dev/null || echo none"), "none", "the tool runs no hooks");
}
