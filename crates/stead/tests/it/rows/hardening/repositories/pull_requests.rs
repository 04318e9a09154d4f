//! A pull request is checked out by its number, can be compared with its base, and its history can
//! be fetched. A push to a full reference name updates that branch.

use serde_json::{Value, json};
use stead_testkit::{GitServer, Repository};

use crate::rows::git::{active, agent, change, failed, git, git_ok, git_server, sh, start};

/// A repository with a pull request that started after `earlier` commits, while `main` has `apart`
/// newer commits.
fn with_pull_request(git: &GitServer, name: &str, reference: &str, earlier: usize, apart: usize) -> Repository {
    let repository = git.repository(name, &[("a", "1\n")]);
    for number in 0..earlier {
        repository.git(&["commit", "-q", "--allow-empty", "-m", &format!("earlier {number}")]);
    }
    repository.git(&["checkout", "-q", "-b", "topic"]);
    repository.commit(&[("feature", "new\n")], "feature");
    repository.git(&["push", "-q", "origin", &format!("HEAD:{reference}")]);
    repository.git(&["push", "-q", "origin", ":topic"]);
    repository.git(&["checkout", "-q", "main"]);
    for number in 0..apart {
        repository.git(&["commit", "-q", "--allow-empty", "-m", &format!("main {number}")]);
    }
    repository.commit(&[("later", "on main\n")], "later");
    repository
}

#[test]
fn a_pull_request_is_checked_out_by_its_number_and_compared_with_its_base() {
    let (server, git_host) = git_server();
    agent(&server, json!({}));
    // One needs more history than the first fetch steps bring. The other has more history than
    // needed.
    let hosts = [("hub", "refs/pull/7/head", 0, 70), ("lab", "refs/merge-requests/7/head", 70, 2)];
    for (name, reference, earlier, apart) in hosts {
        let repository = with_pull_request(&git_host, name, reference, earlier, apart);
        let context = json!({"repository_url": git_host.url(name), "pull_request_number": 7, "base_branch": "main"});
        let session = active(&server, context.clone());
        assert_eq!(session["workspace"]["base"]["commit"], json!(repository.remote(reference)), "{session}");
        let compare =
            "git diff --name-only main...HEAD; git diff --name-only origin/main...HEAD; git status --porcelain";
        assert_eq!(sh(&server, &session, compare), "feature\nfeature", "{name}");
        assert_eq!(sh(&server, &session, "git fsck --no-progress --connectivity-only && echo whole"), "whole");
        // Control: without the base the comparison is not possible.
        let without = active(&server, json!({"repository_url": git_host.url(name), "pull_request_number": 7}));
        let compared = sh(&server, &without, "git diff main...HEAD >/dev/null 2>&1; echo $?");
        assert_ne!(compared, "0", "{name}");
    }
    let context = json!({"repository_url": git_host.url("hub"), "pull_request_number": 8});
    let (code, message) = failed(&start(&server, context));
    assert_eq!(code, "git_ref_missing", "{message}");
    assert!(message.contains("pull request 8"), "{message}");
}

#[test]
fn a_base_branch_that_is_not_there_is_a_warning() {
    let (server, git_host) = git_server();
    git_host.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let context = json!({"repository_url": git_host.url("app"), "branch": "main", "base_branch": "gone"});
    let session = active(&server, context);
    let warnings = session["warnings"].to_string();
    assert!(warnings.contains("base_branch_left_out") && warnings.contains("'gone'"), "{session}");
}

#[test]
fn an_agent_that_clones_later_gets_the_base_too() {
    let (server, git_host) = git_server();
    with_pull_request(&git_host, "app", "refs/pull/7/head", 70, 3);
    agent(&server, json!({"checkout_on_start": false}));
    let context = json!({"repository_url": git_host.url("app"), "pull_request_number": 7, "base_branch": "main"});
    let session = active(&server, context);
    git_ok(&server, &session, "clone", &[]);
    assert_eq!(sh(&server, &session, "ls; git diff --name-only main...HEAD"), "a\nfeature\nfeature");
}

/// Number of commits in the box's history.
fn count(server: &stead_testkit::TestServer, session: &Value) -> String {
    sh(server, session, "git rev-list --count HEAD; git fsck --no-progress --connectivity-only >&2 && echo whole")
}

#[test]
fn history_is_fetched_as_far_as_it_is_asked_for() {
    let (server, git_host) = git_server();
    let repository = git_host.repository("app", &[("a", "1\n")]);
    for number in 0..20 {
        repository.git(&["commit", "-q", "--allow-empty", "-m", &format!("{number}")]);
    }
    repository.commit(&[("a", "2\n")], "last");
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "main"}));
    assert_eq!(count(&server, &session), "1\nwhole", "the control: a checkout begins with one commit");
    git_ok(&server, &session, "fetch", &["--depth=5"]);
    assert_eq!(count(&server, &session), "5\nwhole");
    git_ok(&server, &session, "pull", &["--deepen", "4"]);
    assert_eq!(count(&server, &session), "9\nwhole");
    git_ok(&server, &session, "fetch", &["--unshallow", "origin", "main"]);
    assert_eq!(count(&server, &session), "22\nwhole");
    assert_eq!(sh(&server, &session, "test -e .git/shallow; echo $?; git status --porcelain"), "1");
    for wrong in ["--depth=0", "--depth=99999999999", "--deepen=x"] {
        let refused = git(&server, &session, "fetch", &[wrong]);
        assert_eq!(refused["error"]["code"], "invalid_argument", "{refused}");
    }
}

#[test]
fn a_push_to_a_full_reference_name_goes_to_that_branch() {
    let (server, git_host) = git_server();
    let repository = git_host.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "main"}));
    sh(&server, &session, "echo 2 > a");
    git_ok(&server, &session, "commit", &["-a", "-m", "two"]);
    git_ok(&server, &session, "push", &["origin", "HEAD:refs/heads/x"]);
    let commit = sh(&server, &session, "git rev-parse HEAD");
    let listed =
        repository.git(&["--git-dir", repository.bare().to_str().unwrap(), "for-each-ref", "--format=%(refname)"]);
    assert_eq!((repository.remote("refs/heads/x"), listed.as_str()), (commit, "refs/heads/main\nrefs/heads/x"));
    for wrong in ["HEAD:refs/tags/v1", "HEAD:refs/pull/1/head"] {
        let refused = git(&server, &session, "push", &["origin", wrong]);
        assert_eq!(refused["error"]["code"], "invalid_argument", "{refused}");
    }
    // The agent type's list applies to the branch in either notation.
    change(&server, json!({"git": {"push_branches": ["agent/*"]}}));
    let session = active(&server, json!({"repository_url": git_host.url("app"), "branch": "main"}));
    let refused = git(&server, &session, "push", &["origin", "HEAD:refs/heads/main"]);
    assert_eq!(refused["error"]["code"], "git_push_refused", "{refused}");
    git_ok(&server, &session, "push", &["origin", "HEAD:refs/heads/agent/y"]);
    assert_eq!(repository.remote("refs/heads/agent/y"), repository.remote("main"));
}
