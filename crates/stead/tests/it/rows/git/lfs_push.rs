//! Git LFS pushes: objects are uploaded before the commits that name them, or nothing is pushed.
//! git-lfs itself can read the result.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use stead_testkit::{GitServer, LfsFault, sha256};

use super::{active, agent, change, git, git_ok, git_server, sh};

const ATTRIBUTES: &str = "*.bin filter=lfs diff=lfs merge=lfs -text\n";

fn context(git: &GitServer) -> Value {
    json!({"repository_url": git.url("app"), "branch": "main"})
}

#[test]
fn a_push_takes_its_contents_along() {
    let (server, git_server) = git_server();
    let repository = git_server.repository("app", &[(".gitattributes", ATTRIBUTES)]);
    repository.commit(&[("a.bin", &git_server.keep("app", b"old"))], "pointer");
    agent(&server, json!({"git": {"lfs": true}}));
    let session = active(&server, context(&git_server));
    sh(&server, &session, "printf new > b.bin && printf newer > a.bin && git add -A");
    git_ok(&server, &session, "commit", &["-m", "two contents"]);
    // If the upload fails, the remote is unchanged.
    let before = repository.remote("main");
    git_server.lfs_fault(LfsFault::Batch(403));
    let refused = git(&server, &session, "push", &[]);
    assert_eq!(refused["error"]["code"], "git_unauthorised", "{refused}");
    assert_eq!(repository.remote("main"), before);
    git_server.lfs_fault(LfsFault::None);
    git_ok(&server, &session, "push", &[]);
    assert!(git_server.keeps("app", b"new") && git_server.keeps("app", b"newer"));
    assert_eq!(repository.remote("main"), sh(&server, &session, "git rev-parse HEAD"));
    // A new session receives the pushed contents, and an existing one receives later ones by a
    // pull.
    let other = active(&server, context(&git_server));
    assert_eq!(sh(&server, &other, "cat a.bin b.bin; git status --porcelain"), "newernew");
    sh(&server, &session, "printf newest > a.bin");
    git_ok(&server, &session, "commit", &["-a", "-m", "newest"]);
    git_ok(&server, &session, "push", &[]);
    git_ok(&server, &other, "pull", &[]);
    assert_eq!(sh(&server, &other, "cat a.bin; git status --porcelain"), "newest");
}

#[test]
fn what_cannot_go_along_is_not_left_behind_silently() {
    let (server, git_server) = git_server();
    let repository = git_server.repository("app", &[(".gitattributes", ATTRIBUTES)]);
    let before = repository.remote("main");
    agent(&server, json!({}));
    for (on, code) in [(true, "git_lfs_missing"), (false, "git_lfs_off")] {
        change(&server, json!({"git": {"lfs": on}}));
        let session = active(&server, context(&git_server));
        let pointer = stead_testkit::pointer(&sha256(b"nowhere"), 7);
        sh(&server, &session, &format!("printf '{pointer}' > x.bin && git add -A"));
        git_ok(&server, &session, "commit", &["-m", "a pointer to nothing"]);
        let refused = git(&server, &session, "push", &[]);
        assert_eq!(refused["error"]["code"], code, "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("x.bin"), "{refused}");
        assert_eq!(repository.remote("main"), before);
    }
    // An object whose content does not match its name is not uploaded.
    change(&server, json!({"git": {"lfs": true}}));
    let session = active(&server, context(&git_server));
    sh(
        &server,
        &session,
        "printf real > x.bin && git add -A && f=$(find .git/lfs/objects -type f) && chmod u+w $f && printf fake > $f",
    );
    git_ok(&server, &session, "commit", &["-m", "a lie"]);
    assert_eq!(git(&server, &session, "push", &[])["error"]["code"], "git_lfs_corrupt");
    assert!(!git_server.keeps("app", b"fake") && repository.remote("main") == before);
}

#[test]
fn g9_an_empty_workspace_clones_them_later() {
    let (server, git_server) = git_server();
    let repository = git_server.repository("app", &[(".gitattributes", ATTRIBUTES)]);
    repository.commit(&[("a.bin", &git_server.keep("app", b"later"))], "pointer");
    agent(&server, json!({"git": {"lfs": true}, "checkout_on_start": false}));
    let session = active(&server, context(&git_server));
    git_ok(&server, &session, "clone", &[]);
    assert_eq!(sh(&server, &session, "cat a.bin; git status --porcelain"), "later");
}

/// Runs the real git-lfs with its own settings as the reference.
fn git_lfs(home: &Path, directory: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(directory)
        .args(["-c", "user.name=T", "-c", "user.email=t@example.org"])
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home)
        .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_TERMINAL_PROMPT", "0")])
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn git_lfs_itself_agrees() {
    let (server, git_server) = git_server();
    let repository = git_server.repository("app", &[("plain.txt", "plain\n")]);
    let home = tempfile::tempdir().unwrap();
    let lfs = |directory: &Path, args: &[&str]| git_lfs(home.path(), directory, args);
    lfs(home.path(), &["lfs", "install", "--skip-repo"]);
    lfs(home.path(), &["clone", "-q", &git_server.url("app"), "theirs"]);
    let theirs = home.path().join("theirs");
    lfs(&theirs, &["config", &format!("lfs.http://{}/app.git/info/lfs.locksverify", git_server.host()), "false"]);
    lfs(&theirs, &["lfs", "track", "*.bin"]);
    std::fs::write(theirs.join("theirs.bin"), "made by git-lfs").unwrap();
    lfs(&theirs, &["add", "-A"]);
    lfs(&theirs, &["commit", "-q", "-m", "with git-lfs"]);
    lfs(&theirs, &["push", "-q", "origin", "main"]);
    assert!(git_server.keeps("app", b"made by git-lfs"));
    // Stead reads what git-lfs wrote.
    agent(&server, json!({"git": {"lfs": true}}));
    let session = active(&server, context(&git_server));
    assert_eq!(sh(&server, &session, "cat theirs.bin; git status --porcelain"), "made by git-lfs");
    // git-lfs reads what Stead wrote, both the bytes and the pointer.
    sh(&server, &session, "printf 'made in a box' > ours.bin && git add -A");
    git_ok(&server, &session, "commit", &["-m", "without git-lfs"]);
    git_ok(&server, &session, "push", &[]);
    lfs(&theirs, &["pull", "-q"]);
    lfs(&theirs, &["lfs", "pull"]);
    assert_eq!(std::fs::read_to_string(theirs.join("ours.bin")).unwrap(), "made in a box");
    assert_eq!(lfs(&theirs, &["status", "--porcelain"]), "");
    lfs(&theirs, &["lfs", "fsck"]);
    assert_eq!(repository.remote("main"), lfs(&theirs, &["rev-parse", "HEAD"]));
}
