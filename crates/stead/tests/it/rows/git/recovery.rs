//! A session keeps its commit when the branch moves or the server restarts; durations of the init
//! actions.

use serde_json::json;
use stead_testkit::until;

use super::{active, agent, git_server, sh};
use crate::rows::events;

#[test]
fn s9_after_a_crash_the_session_begins_with_the_commit_it_was_given() {
    let (mut server, git) = git_server();
    let repository = git.repository("app", &[("a", "1\n")]);
    let first = repository.remote("main");
    agent(&server, json!({}));
    server.restart(Some("repository.fetch=sleep(60000)"));
    let context = json!({"repository_url": git.url("app"), "branch": "main"});
    let body = json!({"agent_type": "g", "task": {"context": context}});
    let session = server.client().post("/sessions", body).expect(201)["id"].as_str().unwrap().to_owned();
    // The commit is recorded, but nothing is fetched yet.
    let resolved = until("the commit", || events(&server, &session, "RepositoryResolved").pop());
    assert_eq!((&resolved["commit"], &resolved["branch"]), (&json!(first), &json!("main")), "{resolved}");
    server.kill();
    let second = repository.commit(&[("a", "2\n")], "two");
    server.restart(None);
    let settled = until("the session", || {
        let now = server.client().get(&format!("/sessions/{session}")).expect(200);
        (now["status"] != "provisioning").then_some(now)
    });
    assert_eq!((&settled["status"], &settled["degraded"]), (&json!("active"), &json!(false)), "{settled}");
    assert_eq!(settled["workspace"]["base"]["commit"], json!(first), "{settled}");
    assert_eq!(
        sh(&server, &settled, "cat a; git rev-parse HEAD; git branch --show-current"),
        format!("1\n{first}\nmain")
    );
    assert_eq!(events(&server, &session, "RepositoryResolved").len(), 1);
    // A new session gets the current commit.
    let later = active(&server, json!({"repository_url": git.url("app"), "branch": "main"}));
    assert_eq!(later["workspace"]["base"]["commit"], json!(second));
}

#[test]
fn m7_the_commit_is_in_the_fingerprint() {
    let (server, git) = git_server();
    let repository = git.repository("app", &[("a", "1\n")]);
    let first = repository.remote("main");
    let second = repository.commit(&[("a", "2\n")], "two");
    agent(&server, json!({}));
    let print = |reference: &str| {
        let policy = json!({"type": "git", "url": git.url("app"), "ref": reference});
        let session = server.session(json!({"agent_type": "g", "task": {"workspace_policy": policy}}));
        let fold = server.client().get(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(200);
        (fold["workspace"]["base"]["commit"].clone(), fold["workspace"]["fingerprint"].as_str().unwrap().to_owned())
    };
    let (at, before) = print("main");
    assert_eq!(at, json!(second));
    assert_eq!(print("main").1, before, "equal for equal");
    repository.git(&["push", "-q", "--force", "origin", &format!("{first}:refs/heads/main")]);
    let (at, after) = until("the branch as it is now", || Some(print("main")).filter(|(at, _)| *at == json!(first)));
    assert_ne!(after, before, "{at}: the same branch at another commit is another workspace");
}

#[test]
fn p5_each_step_and_where_the_time_went() {
    let (server, git) = git_server();
    git.repository("app", &[("a", "1\n"), ("b", "2\n")]);
    agent(&server, json!({"setup_commands": ["sleep 0.3"]}));
    let context = json!({"repository_url": git.url("app"), "branch": "main", "pull_request_number": 42});
    let session = active(&server, context);
    let id = session["id"].as_str().unwrap();
    let provisioning = &session["provisioning"];
    let steps = provisioning["steps"].as_array().unwrap();
    let names: Vec<&str> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    let plan = ["create_workspace", "clone_repository", "write_task_context", "run_setup_command"];
    assert_eq!(names, [&["create_box"], &plan[..], &["begin_work"]].concat());
    let took: Vec<u64> = steps.iter().map(|step| step["duration_ms"].as_u64().unwrap()).collect();
    assert!(took[4] >= 300, "the setup command slept: {provisioning}");
    let total = provisioning["duration_ms"].as_u64().unwrap();
    assert!(total >= took[4] && total >= took[2], "{provisioning}");
    assert!(steps.iter().all(|step| step["failure"].is_null() && step["provider"] == "native"), "{provisioning}");
    // The journal has the same durations.
    let finished = events(&server, id, "InitStepFinished");
    let journalled: Vec<u64> = finished.iter().map(|event| event["duration_ms"].as_u64().unwrap()).collect();
    assert_eq!(journalled, took[1..5]);
    // A fetch reports its progress with git's stage names.
    let recorded =
        until("progress", || Some(events(&server, id, "InitStepProgress")).filter(|recorded| !recorded.is_empty()));
    for progress in recorded {
        let (step, percent) = (&progress["step"], progress["percent"].as_u64().unwrap());
        assert!(*step == json!(2) && percent <= 100 && !progress["stage"].as_str().unwrap().is_empty(), "{progress}");
    }
}

#[test]
fn p5_what_fails_took_its_time_too() {
    let (server, git) = git_server();
    super::native::build_init();
    server.agent_type("g", json!({"enabled": true, "provider": "native"}));
    let session = super::start(&server, json!({"repository_url": git.url("nothing")}));
    assert_eq!(session["degraded"], true, "{session}");
    let steps = session["provisioning"]["steps"].as_array().unwrap();
    let failed: Vec<_> = steps.iter().filter(|step| !step["failure"].is_null()).collect();
    assert_eq!(failed.len(), 1, "{session}");
    assert_eq!(
        (&failed[0]["name"], &failed[0]["failure"]["code"]),
        (&json!("clone_repository"), &json!("git_not_found"))
    );
}
