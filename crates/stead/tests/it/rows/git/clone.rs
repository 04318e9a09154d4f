//! From a task to files: which repository, which branch, and what the agent finds.

use serde_json::json;

use super::{active, agent, git_server, sh};

#[test]
fn g1_the_tasks_repository_and_branch() {
    let (server, git) = git_server();
    let repository = git.repository("app", &[("README.md", "hello\n"), ("src/a.txt", "a\n")]);
    repository.git(&["checkout", "-q", "-b", "develop"]);
    let develop = repository.commit(&[("dev.txt", "d\n")], "dev");
    let main = repository.remote("main");
    agent(&server, json!({"repo_source": {"type": "task_context", "branch": "main"}}));

    let session = active(&server, json!({"repository_url": git.url("app"), "branch": "develop"}));
    assert_eq!(session["workspace"]["base"]["commit"], json!(develop), "{session}");
    assert_eq!(sh(&server, &session, "git rev-parse HEAD && git branch --show-current"), format!("{develop}\ndevelop"));
    assert_eq!(
        sh(&server, &session, "cat dev.txt README.md; git status --porcelain; git remote get-url origin"),
        format!("d\nhello\n{}", git.url("app"))
    );

    let session = active(&server, json!({"repository_url": git.url("app")}));
    assert_eq!(session["workspace"]["base"]["commit"], json!(main), "the agent type's branch is the fallback");

    let session = active(&server, json!({}));
    assert_eq!(sh(&server, &session, "ls -A"), "", "no repository, an empty directory");
}
