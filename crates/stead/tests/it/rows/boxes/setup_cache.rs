//! N7: a setup result is kept as a layer, and later sessions with the same key begin with it.

use std::path::Path;

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use crate::rows::git::{agent, git_server};
use crate::rows::{Files, events, on_boxes, settled};

/// Writes to the workspace and to the home directory, with a value that differs at every run.
const SETUP: &str = "cat /proc/sys/kernel/random/uuid > made.txt; mkdir -p $HOME/.cache; cp made.txt $HOME/.cache/made; \
                     echo task=$STEAD_TASK_ID >> made.txt";

fn declare(server: &TestServer, files: Files, id: &str, more: Value) {
    let mut workspace = json!({
        "enabled": true, "provider": files.provider(), "workspace_policy": "empty", "require_workspace": true,
        "setup_commands": [SETUP], "setup_cache": true, "on_setup_failure": "warn",
    });
    workspace.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.agent_type(id, workspace);
}

fn sh(server: &TestServer, session: &Value, command: &str) -> String {
    let answer = server.tool(session, "bash", json!({"command": command}));
    let result = &answer["result"];
    assert_eq!(result["exit_code"], 0, "{command}: {answer}");
    result["stdout"].as_str().unwrap().to_owned()
}

fn is_cached(session: &Value) -> bool {
    session["provisioning"]["setup_cached"].as_bool().unwrap()
}

fn steps(session: &Value) -> Vec<String> {
    let steps = session["provisioning"]["steps"].as_array().unwrap().iter();
    steps.map(|step| step["name"].as_str().unwrap().to_owned()).collect()
}

fn kept(server: &TestServer) -> Vec<Value> {
    server.client().get("/setup-results").expect(200)["items"].as_array().unwrap().clone()
}

/// Directories of kept and incomplete results, of every provider.
fn directories(server: &TestServer) -> Vec<String> {
    let inner = std::fs::read_dir(server.home()).unwrap().flatten().map(|entry| entry.path().join("volumes"));
    let volumes = inner.chain([server.home().join("volumes")]);
    let entries = volumes.filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("setup_")).collect()
}

fn close(server: &TestServer, session: &Value) {
    let path = format!("/sessions/{}", session["id"].as_str().unwrap());
    server.client().delete(&path);
    until("the closed session", || (server.client().get(&path).expect(200)["status"] == "closed").then_some(()));
}

fn n7_a_setup_result_is_reused(files: Files) {
    let mut server = files.server();
    declare(&server, files, "c", json!({}));
    let plan = || {
        server.client().post("/sessions:plan", json!({"agent_type": "c"})).expect(200)["workspace"]["setup_cache"]
            .clone()
    };
    assert_eq!(plan()["outcome"], "miss");
    let first = server.session(json!({"agent_type": "c", "task": {"id": "one", "context": {"branch": "b"}}}));
    assert!(!is_cached(&first), "{first}");
    assert_eq!(kept(&server).len(), 1, "{first}");
    assert_eq!(plan()["outcome"], "hit");
    let made = sh(&server, &first, "cat made.txt");
    assert!(made.ends_with("task=\n"), "the task is not part of the result: {made:?}");
    // The session that made the result goes on with it, and its own files are not part of it.
    sh(&server, &first, "echo own > own.txt; echo own > $HOME/own; echo changed > made.txt; test -e .stead/task.json");

    let second = server.session(json!({"agent_type": "c", "task": {"id": "two"}}));
    assert!(is_cached(&second), "{second}");
    assert!(!steps(&second).contains(&"run_setup_command".to_owned()), "{second}");
    assert_eq!(sh(&server, &second, "cat made.txt"), made);
    assert_eq!(sh(&server, &second, "cat $HOME/.cache/made; ls -A; ls $HOME"), format!("{}made.txt\n", &made[..37]));
    let finished = events(&server, second["id"].as_str().unwrap(), "InitStepFinished");
    assert_eq!(finished[0]["report"]["setup_cache"]["outcome"], "hit", "{finished:?}");
    assert_eq!(finished.len(), 1, "no other action ran: {finished:?}");
    let diff = server.client().get(&format!("/sessions/{}/diff", second["id"].as_str().unwrap()));
    assert!(!diff.text.contains("made.txt"), "{}", diff.text);

    // What a session changes stays its own, in the workspace and in the home directory.
    sh(&server, &second, "rm made.txt; rm $HOME/.cache/made; echo new > $HOME/new");
    close(&server, &first);
    close(&server, &second);
    // A restart of the server loses nothing.
    server.restart(None);
    let third = server.session(json!({"agent_type": "c"}));
    assert!(is_cached(&third), "{third}");
    assert_eq!(sh(&server, &third, "cat made.txt"), made);
    assert_eq!(sh(&server, &third, "cat $HOME/.cache/made; ls $HOME"), made[..37].to_owned());
    let usage = server.client().get("/usage").expect(200)["setup_results"].clone();
    assert_eq!((&usage["count"], &usage["held_count"]), (&json!(1), &json!(1)), "{usage}");
    assert!(usage["bytes"].as_u64().unwrap() > 0, "{usage}");

    // A removed result serves no new session, and the one that uses it keeps its files.
    let id = kept(&server)[0]["id"].as_str().unwrap().to_owned();
    server.client().delete(&format!("/setup-results/{id}")).expect(204);
    server.client().delete(&format!("/setup-results/{id}")).expect(404);
    assert_eq!(sh(&server, &third, "cat made.txt"), made);
    let fourth = server.session(json!({"agent_type": "c"}));
    assert!(!is_cached(&fourth), "{fourth}");
    assert_ne!(sh(&server, &fourth, "cat made.txt"), made);
    assert_eq!(directories(&server).len(), 2);
    close(&server, &third);
    assert_eq!(directories(&server).len(), 1, "the files of the removed result go with its last user");
}

fn a_result_serves_only_what_it_was_made_for(files: Files) {
    let server = files.server();
    declare(&server, files, "c", json!({}));
    let first = server.session(json!({"agent_type": "c", "task": {"env": {"A": "1"}}}));
    assert!(!is_cached(&first));
    assert!(is_cached(&server.session(json!({"agent_type": "c", "task": {"env": {"A": "1"}}}))));
    assert!(!is_cached(&server.session(json!({"agent_type": "c", "task": {"env": {"A": "2"}}}))), "another variable");
    for project in ["p", "q"] {
        let put = server.client().put(&format!("/projects/{project}"), json!({}));
        assert!([200, 201].contains(&put.status), "{}", put.text);
        let task = json!({"agent_type": "c", "project": project, "task": {"env": {"A": "1"}}});
        assert!(!is_cached(&server.session(task.clone())), "the first of project {project}");
        assert!(is_cached(&server.session(task)), "the second of project {project}");
    }
    declare(&server, files, "d", json!({"setup_commands": [format!("{SETUP} ")]}));
    assert!(!is_cached(&server.session(json!({"agent_type": "d", "task": {"env": {"A": "1"}}}))), "another command");
    declare(&server, files, "e", json!({"resource_limits": {"pids": 77}}));
    assert!(!is_cached(&server.session(json!({"agent_type": "e", "task": {"env": {"A": "1"}}}))), "another limit");
    declare(&server, files, "g", json!({}));
    assert!(!is_cached(&server.session(json!({"agent_type": "g", "task": {"env": {"A": "1"}}}))), "another agent type");
    assert_eq!(kept(&server).len(), 7);
    let results = kept(&server);
    assert!(results.iter().all(|result| !result.to_string().contains("\"1\"")), "values are not shown: {results:?}");
    // The results of a project go with it.
    server.client().delete("/projects/p");
    until("the results without those of p", || {
        let left = kept(&server);
        left.iter().all(|result| result["project"] != "p").then_some(left.len())
    });
}

fn a_failed_setup_is_never_kept(files: Files) {
    let server = files.server();
    declare(&server, files, "f", json!({"setup_commands": ["touch first", "false"]}));
    declare(&server, files, "t", json!({"setup_commands": ["touch first; sleep 600"], "setup_timeout_seconds": 1}));
    for agent_type in ["f", "t"] {
        for _ in 0..2 {
            let task = json!({"agent_type": agent_type, "task": {"context": {"branch": "b"}}});
            let session = server.session(task);
            assert!(!is_cached(&session) && session["warnings"].to_string().contains("setup_failed"), "{session}");
            assert!(!steps(&session).contains(&"keep_setup".to_owned()), "{session}");
            assert_eq!(sh(&server, &session, "ls; test -e .stead/task.json"), "first\n");
        }
    }
    // Processes cannot be kept, so the result of a setup that leaves some is not kept either.
    declare(&server, files, "p", json!({"setup_commands": ["(setsid sleep 600 >/dev/null 2>&1 &)"]}));
    let session = server.session(json!({"agent_type": "p"}));
    let warnings = session["warnings"].to_string();
    assert!(warnings.contains("setup_cache_unused") && warnings.contains("left processes running"), "{session}");
    assert!(kept(&server).is_empty() && directories(&server).is_empty());
}

/// A kept result counts for the disk quota of its project, and one beyond it is not kept.
fn t3_a_setup_result_counts_for_the_disk_quota(files: Files) {
    let mut server = files.server();
    server.client().put("/projects/p", json!({})).expect(200);
    declare(&server, files, "c", json!({"resource_limits": {"disk": "64M"}}));
    let used = |server: &TestServer| {
        let usage = server.client().get("/projects/p/usage").expect(200);
        usage["project"]["disk"]["used"].as_u64().unwrap()
    };
    let first = server.session(json!({"agent_type": "c", "project": "p"}));
    let results = kept(&server);
    let bytes = results[0]["bytes"].as_u64().unwrap();
    assert!(bytes > 0, "{results:?}");
    assert_eq!(used(&server), (64 << 20) + bytes, "{results:?}");
    close(&server, &first);
    server.restart(None);
    assert_eq!(used(&server), bytes, "after a kill");
    server.client().delete(&format!("/setup-results/{}", results[0]["id"].as_str().unwrap())).expect(204);
    assert_eq!(used(&server), 0);
    // The session fits, and its result does not.
    server.client().put("/projects/p/quotas", json!({"disk": "64M"})).expect(200);
    let second = server.session(json!({"agent_type": "c", "project": "p"}));
    let warnings = second["warnings"].to_string();
    assert!(warnings.contains("setup_cache_unused") && warnings.contains("allows disk 64M"), "{second}");
    assert_eq!((kept(&server).len(), used(&server)), (0, 64 << 20));
    assert!(sh(&server, &second, "cat made.txt").ends_with("task=\n"), "the session has its files");
}

on_boxes!(
    n7_a_setup_result_is_reused,
    a_result_serves_only_what_it_was_made_for,
    a_failed_setup_is_never_kept,
    t3_a_setup_result_counts_for_the_disk_quota,
);

#[test]
fn n7_named_files_decide_across_commits() {
    let (server, git) = git_server();
    let repository = git.repository("app", &[("lock", "1\n"), ("src/a", "one\n"), ("tracked", "t\n")]);
    let setup = "mkdir -p deps src/gen; cat /proc/sys/kernel/random/uuid > deps/made; echo g > src/gen/x; echo changed > tracked";
    let cache = json!({"files": ["lock", "absent"]});
    agent(&server, json!({"setup_commands": [setup], "setup_cache": cache}));
    let start = || {
        let context = json!({"repository_url": git.url("app"), "branch": "main"});
        server.session(json!({"agent_type": "g", "task": {"context": context}}))
    };
    let first = start();
    assert!(!is_cached(&first), "{first}");
    let made = sh(&server, &first, "cat deps/made");
    // What the setup changes in the checkout is not kept, also not for the session that made it.
    assert_eq!(
        sh(&server, &first, "cat tracked src/a src/gen/x; git status --short"),
        "t\none\ng\n?? deps/\n?? src/gen/\n"
    );
    repository.commit(&[("src/a", "two\n"), ("deps/made", "from the commit\n"), ("deps/more", "m\n")], "two");
    let second =
        until("the new commit", || Some(start()).filter(|new| new["workspace"]["base"] != first["workspace"]["base"]));
    assert!(is_cached(&second), "{second}");
    // The files of the commit win over those of the result.
    assert_eq!(
        sh(&server, &second, "cat src/a src/gen/x deps/made deps/more tracked"),
        "two\ng\nfrom the commit\nm\nt\n"
    );
    repository.commit(&[("lock", "2\n")], "three");
    let third =
        until("the new commit", || Some(start()).filter(|new| new["workspace"]["base"] != second["workspace"]["base"]));
    assert!(!is_cached(&third), "another lock file: {third}");
    assert_eq!(sh(&server, &first, "cat deps/made"), made);
}

#[test]
fn n7_without_named_files_the_commit_decides() {
    let (server, git) = git_server();
    let repository = git.repository("app", &[("a", "1\n")]);
    agent(
        &server,
        json!({"setup_commands": ["echo changed > a; rm -f gone; git status --short > status"], "setup_cache": true}),
    );
    let start = || {
        let context = json!({"repository_url": git.url("app"), "branch": "main"});
        server.session(json!({"agent_type": "g", "task": {"context": context}}))
    };
    let first = start();
    let second = start();
    assert!(!is_cached(&first) && is_cached(&second), "{second}");
    assert_eq!(sh(&server, &second, "cat a status"), "changed\n M a\n?? status\n");
    repository.commit(&[("b", "1\n")], "two");
    let third =
        until("the new commit", || Some(start()).filter(|new| new["workspace"]["base"] != first["workspace"]["base"]));
    assert!(!is_cached(&third), "{third}");
}

/// `kill -9` while the result is being kept leaves nothing of it, and the session starts again.
#[test]
fn a_kill_while_a_result_is_kept_leaves_nothing_half() {
    let mut server = Files::Disk.server();
    declare(&server, Files::Disk, "c", json!({}));
    server.restart(Some("setup.keep=sleep(60000)"));
    let begun = server.client().post("/sessions?wait=0", json!({"agent_type": "c"})).expect(201);
    let id = begun["id"].as_str().unwrap().to_owned();
    until("the step", || {
        let started = events(&server, &id, "InitStepStarted");
        started.iter().any(|event| event["action"] == "keep_setup").then_some(())
    });
    server.kill();
    // A result whose label was never written, as after a kill later in the same step.
    let volumes = server.home().join("volumes");
    std::fs::create_dir_all(volumes.join("setup_00000000000000000000000000000000/volume/g0")).unwrap();
    std::fs::write(volumes.join("setup_00000000000000000000000000000000/setup.json.new"), "{").unwrap();
    server.restart(None);
    let session = settled(&server, &id);
    assert_eq!((&session["status"], is_cached(&session)), (&json!("active"), false), "{session}");
    let kept = kept(&server);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(directories(&server), [kept[0]["id"].as_str().unwrap()], "only the complete result");
    assert!(is_cached(&server.session(json!({"agent_type": "c"}))));
}

#[test]
fn memory_says_that_it_keeps_nothing() {
    let server = Files::Memory.server();
    declare(&server, Files::Memory, "c", json!({}));
    let session = server.session(json!({"agent_type": "c"}));
    let warnings = session["warnings"].to_string();
    assert!(warnings.contains("setup_cache_unused") && warnings.contains("provider 'memory'"), "{session}");
    assert!(!is_cached(&session) && kept(&server).is_empty());
}

#[test]
fn what_cannot_be_cached_or_run_is_refused() {
    let server = Files::Disk.server();
    for (cache, about) in [
        (json!("yes"), "true, false"),
        (json!({"files": []}), "1 to 16"),
        (json!({"files": ["../x"]}), "inside the workspace"),
        (json!({"files": ["/etc/passwd"]}), "inside the workspace"),
        (json!({}), "files"),
    ] {
        let workspace = json!({"enabled": true, "setup_cache": cache});
        let refused = server.client().post("/agent-types", json!({"id": "x", "workspace": workspace}));
        assert!([400, 422].contains(&refused.status) && refused.text.contains(about), "{cache}: {}", refused.text);
    }
    declare(&server, Files::Disk, "r", json!({"setup_user": "root"}));
    let refused = server.client().post("/sessions", json!({"agent_type": "r"})).expect(422);
    assert_eq!(refused["code"], "policy_incompatible", "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("setup_user 'root'"), "{refused}");
    assert!(!Path::new("/workspace").exists());
}
