//! Many concurrent sessions of one repository: one fetch, and all of them succeed.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{agent, git_server};

/// The default suits a laptop; `STEAD_GIT_CROWD` sets the number of sessions.
#[test]
fn one_fetch_for_a_crowd() {
    let number =
        |name: &str, usual: usize| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (sessions, files) = (number("STEAD_GIT_CROWD", 12), number("STEAD_GIT_FILES", 300));
    let (server, git) = git_server();
    let names: Vec<String> = (0..files).map(|index| format!("d{}/f{index}.txt", index / 100)).collect();
    let content: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), name.as_str())).collect();
    git.repository("app", &content);
    agent(&server, json!({}));
    let body = json!({"agent_type": "g", "task": {"context": {"repository_url": git.url("app"), "branch": "main"}}});
    let ask = || {
        let mut session = server.client().post("/sessions?wait=300", body.clone()).expect(201);
        let deadline = Instant::now() + Duration::from_secs(600);
        while session["status"] == "provisioning" {
            assert!(Instant::now() < deadline, "{session}");
            std::thread::sleep(Duration::from_millis(500));
            session = server.client().get(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(200);
        }
        session
    };
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..sessions).map(|_| scope.spawn(ask)).collect();
        for session in asked.into_iter().map(|asked| asked.join().unwrap()) {
            assert_eq!(session["status"], "active", "{session}");
        }
    });
    // The branch is resolved, fetched and checked out once each; the other sessions wait.
    assert_eq!(git.packs(), 1, "{:?}", git.requests());
    let usage = server.client().get("/usage").expect(200);
    assert_eq!((&usage["layers"]["count"], usage["mirrors"].as_array().unwrap().len()), (&json!(1), 1), "{usage}");
    assert_eq!(usage["workspaces"].as_array().unwrap().len(), sessions);
}
