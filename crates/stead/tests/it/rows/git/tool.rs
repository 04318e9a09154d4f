//! G7 and G8: the `git` tool.

use serde_json::{Value, json};
use stead_testkit::{Fault, TestServer, until};

use super::{active, agent, git, git_ok, git_server, sh};
use crate::rows::events;

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
    // A second push continues from there.
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
    // The resolved branch is cached for a few seconds.
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
    // Without a list, the session may push to its own branch and to branches that it created.
    repository.git(&["push", "-q", "origin", "main:release"]);
    let theirs = git(&server, &session, "push", &["feature:release"]);
    assert_eq!(theirs["error"]["code"], "git_push_refused", "{theirs}");
    assert!(theirs["message"].as_str().unwrap().contains("push_branches"), "{theirs}");
    assert_eq!(repository.remote("release"), main);
    for text in ["one", "two"] {
        sh(&server, &session, &format!("echo {text} > c; git add c"));
        git_ok(&server, &session, "commit", &["-m", text]);
        git_ok(&server, &session, "push", &["feature:mine"]);
    }
    assert_eq!(repository.remote("mine"), sh(&server, &session, "git rev-parse HEAD"));
    git_ok(&server, &session, "push", &[]);
    let pushes = server.client().get("/audit?type=branch_pushed&limit=100").expect(200);
    let mut recorded: Vec<(&str, bool)> = pushes["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["detail"]["branch"].as_str().unwrap(), entry["detail"]["made"].as_bool().unwrap()))
        .collect();
    recorded.sort_unstable();
    assert_eq!(recorded, [("feature", false), ("mine", false), ("mine", true)], "{pushes}");
    // Another session did not create the branch.
    let other = active(&server, json!({"repository_url": git_host.url("app"), "branch": "feature"}));
    let refused = git(&server, &other, "push", &["feature:mine"]);
    assert_eq!(refused["error"]["code"], "git_push_refused", "{refused}");
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
    // An empty list allows no branch.
    let none = json!({"enabled": true, "provider": "native", "git": {"push_branches": []}});
    server.client().put("/agent-types/g/workspace-config", none).expect(200);
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "feature"}));
    for branch in ["feature", "feature:new"] {
        let refused = git(&server, &session, "push", &[branch]);
        assert_eq!(refused["error"]["code"], "git_push_refused", "{refused}");
    }
}

/// Number of processes with `word` in their command line.
fn gits_with(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let words = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    words.map(|words| String::from_utf8_lossy(&words).into_owned()).filter(|words| words.contains(word)).count()
}

#[test]
fn a_call_whose_session_ends_leaves_no_git_behind() {
    let (server, git_host) = git_server();
    git_host.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "main"}));
    git_host.fault(Fault::Silent);
    std::thread::scope(|scope| {
        let path = format!("/sessions/{}/tools/git", session["id"].as_str().unwrap());
        let client = server.client();
        let called = scope.spawn(move || client.post(&path, json!({"command": "fetch", "args": ["other"]})));
        until("git asks the remote", || (gits_with(&git_host.host()) > 0).then_some(()));
        server.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(204);
        // The call's record may still precede the session's end.
        let reply = called.join().unwrap();
        let cancelled = reply.status == 200 && reply.json()["error"]["code"] == "cancelled";
        assert!(cancelled || reply.status == 409, "{}", reply.text);
        until("a git is left", || (gits_with(&git_host.host()) == 0).then_some(()));
    });
}

/// Calls the tool over MCP, which supports cancellation, and cancels the call once `works` returns
/// true.
#[track_caller]
fn cancel(server: &TestServer, session: &Value, arguments: Value, works: impl Fn() -> bool) {
    let token = session["token"].as_str().unwrap();
    let say = |mcp: Option<&str>, message: Value| {
        let client = server.client().with_token(token);
        let mcp = mcp.unwrap_or_default().to_owned();
        move || {
            let mut headers = vec![("accept", "application/json, text/event-stream")];
            headers.extend((!mcp.is_empty()).then_some(("mcp-session-id", mcp.as_str())));
            client.try_send("POST", "/mcp", &headers, Some(message.to_string()))
        }
    };
    let hello =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let begun = say(None, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}))().unwrap();
    let mcp = begun.header("mcp-session-id").unwrap().to_owned();
    say(Some(&mcp), json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))().unwrap();
    let call = json!({"name": "git", "arguments": arguments});
    let call = say(Some(&mcp), json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}));
    // A cancelled request need not be answered: this thread ends with the server at the latest.
    std::thread::spawn(call);
    until("git is at work", || works().then_some(()));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    say(Some(&mcp), cancel)().unwrap();
    until("a git is left", || (!works()).then_some(()));
    until("its record", || {
        let finished = events(server, session["id"].as_str().unwrap(), "ToolCallFinished").pop()?;
        (finished["answer"]["error"]["code"] == "cancelled").then_some(())
    });
}

#[test]
fn a_call_that_is_cancelled_leaves_no_git_behind() {
    let (server, git_host) = git_server();
    git_host.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "main"}));
    git_host.fault(Fault::Silent);
    let fetch = json!({"command": "fetch", "args": ["other"]});
    cancel(&server, &session, fetch, || gits_with(&git_host.host()) > 0);
}

#[test]
fn a_call_that_is_cancelled_leaves_no_git_in_the_box() {
    let (server, git_host) = git_server();
    git_host.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "main"}));
    // A filter that git waits for; the number of seconds identifies its process.
    let seconds = format!("99{}", std::process::id());
    sh(
        &server,
        &session,
        &format!("git config filter.slow.clean 'sleep {seconds}'; echo '* filter=slow' > .gitattributes"),
    );
    sh(&server, &session, "echo 2 > a");
    let add = json!({"command": "add", "args": ["a"]});
    cancel(&server, &session, add, || gits_with(&format!("sleep\0{seconds}")) > 0);
    // The box still works. A lock file of the killed git, if any, is reported by the next git.
    assert_eq!(sh(&server, &session, "pgrep -x git > /dev/null && echo running || echo none"), "none");
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
