//! From a task to files: the repository, the branch, and the files that the agent finds.

use serde_json::{Value, json};

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

#[test]
fn g1_without_any_branch_the_remotes_default() {
    let (server, git) = git_server();
    let repository = git.repository("app", &[("a", "1\n")]);
    repository.git(&["checkout", "-q", "-b", "trunk"]);
    let trunk = repository.commit(&[("a", "2\n")], "two");
    repository.git(&["--git-dir", repository.bare().to_str().unwrap(), "symbolic-ref", "HEAD", "refs/heads/trunk"]);
    repository.git(&["tag", "v1", "main"]);
    repository.git(&["push", "-q", "origin", "v1"]);
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git.url("app")}));
    assert_eq!(sh(&server, &session, "git rev-parse HEAD; git branch --show-current"), format!("{trunk}\ntrunk"));
    let tag = active(&server, json!({"repository_url": git.url("app"), "branch": "v1"}));
    assert_eq!(sh(&server, &tag, "cat a; git branch --show-current"), "1", "a tag is a detached head");
    let commit = repository.remote("main");
    let by_name = active(&server, json!({"repository_url": git.url("app"), "branch": commit}));
    assert_eq!(by_name["workspace"]["base"]["commit"], json!(commit));
}

#[test]
fn what_git_remembers_of_directories_is_what_is_in_them() {
    let (server, git) = git_server();
    git.repository("app", &[(".gitignore", "*.o\n"), ("src/deep/a.txt", "a\n"), ("src/b.txt", "b\n")]);
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git.url("app"), "branch": "main"}));
    let status =
        |before: &str| sh(&server, &session, &format!("{before}; git status --porcelain --untracked-files=all"));
    for _ in 0..3 {
        assert_eq!(status("true"), "");
    }
    assert_eq!(status("touch src/deep/new.txt src/deep/x.o"), "?? src/deep/new.txt");
    assert_eq!(status("mkdir -p src/more && touch src/more/y"), "?? src/deep/new.txt\n?? src/more/y");
    assert_eq!(status("rm src/deep/new.txt"), "?? src/more/y");
    // Git detects the change by content although size and time are the same.
    assert_eq!(status("rm -r src/more; printf 'c\n' > src/b.txt"), " M src/b.txt");
    assert_eq!(status("git checkout -q src/b.txt; : > .gitignore"), " M .gitignore\n?? src/deep/x.o");
    // The status also sees changes made by other tools.
    server.tool(&session, "write", json!({"path": "src/tool.txt", "content": "t"}));
    assert_eq!(status("true"), " M .gitignore\n?? src/deep/x.o\n?? src/tool.txt");
    // The diff lists changed files and leaves out git's own directory.
    sh(&server, &session, "git commit -qam two");
    let diff = server.client().get(&format!("/sessions/{}/diff", session["id"].as_str().unwrap())).expect(200);
    assert_eq!(diff["changed"], json!([".gitignore", "src/deep/x.o", "src/tool.txt"]), "{diff}");
}

#[test]
fn g2_fixed_ignores_the_task_and_none_never_clones() {
    let (server, git) = git_server();
    git.repository("infra", &[("infra.txt", "i\n")]);
    git.repository("app", &[("app.txt", "a\n")]);
    agent(&server, json!({"repo_source": {"type": "fixed", "url": git.url("infra")}}));
    let session = active(&server, json!({"repository_url": git.url("app"), "branch": "nonsense"}));
    assert_eq!(sh(&server, &session, "ls"), "infra.txt");
    // The metadata describes the repository that was actually cloned.
    let metadata = &session["workspace"]["metadata"];
    assert_eq!((&metadata["repository_url"], &metadata["branch"]), (&json!(git.url("infra")), &Value::Null));
    let task_file: Value = serde_json::from_str(&sh(&server, &session, "cat .stead/task.json")).unwrap();
    assert_eq!(
        (&task_file["repository_url"], &task_file["branch"]),
        (&json!(git.url("infra")), &Value::Null),
        "{task_file}"
    );
    let before = git.requests().len();
    server
        .client()
        .put(
            "/agent-types/g/workspace-config",
            json!({"enabled": true, "provider": "native", "repo_source": {"type": "none"}}),
        )
        .expect(200);
    let session = active(&server, json!({"repository_url": git.url("app")}));
    assert_eq!(sh(&server, &session, "ls -A | grep -v '^.stead$' || true"), "");
    assert_eq!(git.requests().len(), before);
}

#[test]
fn g3_the_pull_request_is_in_the_task_file() {
    let (server, git) = git_server();
    git.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let context =
        json!({"repository_url": git.url("app"), "branch": "main", "pull_request_number": 42, "base_branch": "main"});
    let session = active(&server, context);
    let metadata = &session["workspace"]["metadata"];
    assert_eq!((&metadata["pull_request_number"], &metadata["base_branch"]), (&json!(42), &json!("main")));
    let task_file: serde_json::Value = serde_json::from_str(&sh(&server, &session, "cat .stead/task.json")).unwrap();
    assert_eq!((&task_file["pull_request_number"], &task_file["base_branch"]), (&json!(42), &json!("main")));
    assert_eq!(sh(&server, &session, "git status --porcelain"), "", "what the server wrote is no change");
}

#[test]
fn g9_checked_out_later_by_the_agent() {
    let (server, git) = git_server();
    let repository = git.repository("app", &[("a", "1\n")]);
    repository.git(&["checkout", "-q", "-b", "other"]);
    let other = repository.commit(&[("b", "2\n")], "two");
    agent(&server, json!({"checkout_on_start": false}));
    let session = active(&server, json!({"repository_url": git.url("app"), "branch": "main"}));
    assert_eq!((sh(&server, &session, "ls -A | grep -v '^.stead$' || true").as_str(), git.requests().len()), ("", 0));
    super::git_ok(&server, &session, "clone", &[]);
    assert_eq!(sh(&server, &session, "ls; git status --porcelain; git branch --show-current"), "a\nmain");
    super::git_ok(&server, &session, "checkout", &["other"]);
    assert_eq!(sh(&server, &session, "ls; git rev-parse HEAD"), format!("a\nb\n{other}"));
}

#[test]
fn a_memory_workspace_has_the_files_and_names_what_is_missing() {
    let (server, git) = git_server();
    git.repository("app", &[("src/a.txt", "a\n")]);
    server.agent_type("g", json!({"enabled": true, "provider": "memory", "require_workspace": true}));
    let session = active(&server, json!({"repository_url": git.url("app")}));
    let read = server.tool(&session, "read", json!({"path": "src/a.txt"}));
    assert_eq!(read["result"]["content"], "a\n", "{read}");
    let codes: Vec<_> =
        session["warnings"].as_array().unwrap().iter().map(|warning| warning["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"history_left_out"), "{session}");
    let git_call = super::git(&server, &session, "status", &[]);
    assert_eq!(git_call["error"]["code"], "tool_unavailable", "{git_call}");
}

#[test]
fn submodules_and_large_files_are_named_not_missing() {
    let (server, git) = git_server();
    let modules = "[submodule \"x\"]\n\tpath = lib/x\n\turl = ext::sh -c 'touch /tmp/pwn'\n";
    git.repository(
        "app",
        &[(".gitmodules", modules), (".gitattributes", "*.bin filter=lfs diff=lfs\n"), ("a.bin", "pointer\n")],
    );
    agent(&server, json!({}));
    for _ in 0..2 {
        let session = active(&server, json!({"repository_url": git.url("app")}));
        let warnings = session["warnings"].to_string();
        assert!(warnings.contains("lib/x") && warnings.contains(".gitattributes"), "{warnings}");
    }
}
