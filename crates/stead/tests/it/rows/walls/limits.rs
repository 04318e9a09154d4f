//! A limit of processes that is always there, limits that no box could start with, and a fork bomb that outlives its call.

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use super::super::{native, podman, server_with};
use super::ordinary_user;

/// Leaves as many processes behind as the box gives, none of which ends by itself, and says in a file that there is no room.
const BOMB: &str = "bomb() { bomb | bomb & sleep 1000; }; (bomb >/dev/null 2>refused &); true";

fn enforced(session: &Value) -> Vec<&str> {
    session["workspace"]["limits"]["enforced"].as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()).collect()
}

#[test]
fn a_box_has_a_limit_of_processes_that_nobody_asked_for() {
    let server = native::with_boxes();
    let session = native::boxed(&server, json!({}));
    assert_eq!(session["workspace"]["limits"]["pids"], 512, "{session}");
    assert!(enforced(&session).contains(&"pids"), "{session}");
    let forks = "import os, time\nn = 0\ntry:\n  while n < 2_000:\n    if os.fork() == 0: time.sleep(60)\n    n += 1\nexcept BlockingIOError: print(n)\nos.killpg(0, 9)";
    let forked = server.tool(&session, "bash", json!({"command": format!("python3 -u - <<'END'\n{forks}\nEND\ntrue")}));
    let count = forked["result"]["stdout"].as_str().unwrap().trim().parse::<u32>();
    assert!(count.as_ref().is_ok_and(|count| (400..512).contains(count)), "{forked}");
    // The control: who asks for more gets more.
    server.agent_type(
        "more",
        json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "resource_limits": {"pids": 2048}}),
    );
    let session = server.session(json!({"agent_type": "more"}));
    assert_eq!(session["workspace"]["limits"]["pids"], 2048, "{session}");
}

#[test]
fn the_default_limit_of_processes_is_a_setting() {
    native::build_init();
    let server = server_with(ServerOptions::default().env("WORKSPACE_DEFAULT_PIDS", "100"));
    let session = native::boxed(&server, json!({}));
    assert_eq!(session["workspace"]["limits"]["pids"], 100, "{session}");
    let ordinary = ordinary_user::server();
    let session = native::boxed(&ordinary.server, json!({}));
    assert_eq!(session["workspace"]["limits"]["pids"], 512, "{session}");
    assert!(enforced(&session).contains(&"pids"), "{session}");
}

#[test]
fn limits_that_no_box_could_start_with_are_refused_with_the_smallest_value() {
    let server = native::with_boxes();
    server.agent_type("a", json!({"enabled": true, "provider": "native"}));
    for (limits, field, smallest) in [
        (json!({"pids": 1}), "resource_limits.pids", "16"),
        (json!({"pids": 15}), "resource_limits.pids", "16"),
        (json!({"disk": "1K"}), "resource_limits.disk", "1M"),
        (json!({"memory": "1K"}), "resource_limits.memory", "16M"),
    ] {
        let body = json!({"resource_limits": limits});
        let reply = server.client().put("/agent-types/a/workspace-config", body);
        assert_eq!(reply.invalid_fields(), [field], "{}", reply.text);
        assert!(reply.text.contains(smallest), "{}", reply.text);
    }
    // The control: the smallest values are no empty promise.
    let smallest = json!({"pids": 16, "disk": "1M", "memory": "16M"});
    let session = native::boxed(&server, json!({"resource_limits": smallest}));
    let said = native::bash(&server, &session, "echo kept > a; cat a");
    assert_eq!(said["stdout"], "kept\n", "{said}");
}

/// A call that leaves a fork bomb behind. The next ones run, also what they start themselves.
fn a_bomb_is_outlived(server: &TestServer, session: &Value, full: &dyn Fn() -> bool) {
    for round in 0..2 {
        let left = server.tool(session, "bash", json!({"command": BOMB}));
        assert_eq!(left["ok"], true, "{left}");
        // The control: there is no room for one more.
        until("the box is full", || full().then_some(()));
        let pipe = format!("for i in 1 2 3; do echo {round} | cat | cat; done");
        let next = server.tool(session, "bash", json!({"command": pipe, "timeout": 60}));
        assert_eq!(
            (&next["result"]["stdout"], &next["result"]["stderr"]),
            (&json!(format!("{round}\n").repeat(3)), &json!(""))
        );
        let file = server.tool(session, "write", json!({"path": "a.txt", "content": "x", "mode": "overwrite"}));
        assert_eq!(file["ok"], true, "{file}");
    }
}

/// How often the kernel refused a process of the box of this server.
fn refusals(server: &TestServer, session: &Value) -> u64 {
    let id = session["workspace"]["id"].as_str().unwrap();
    let record = std::fs::read_to_string(server.home().join("boxes").join(id).join("box.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let groups = record["cgroups"].as_array().unwrap().iter().map(|group| group.as_str().unwrap());
    let events = groups.filter_map(|group| std::fs::read_to_string(format!("{group}/pids.events")).ok());
    events.flat_map(|text| text.trim().strip_prefix("max ").and_then(|count| count.parse::<u64>().ok())).sum()
}

/// What the bomb says when it is refused a process.
fn says_refused(server: &TestServer, session: &Value) -> bool {
    let said = server.tool(session, "read", json!({"path": "refused"}));
    said["result"]["content"].as_str().is_some_and(|text| text.contains("Resource temporarily unavailable"))
}

#[test]
fn a_fork_bomb_that_a_call_left_behind_does_not_keep_the_next_one_from_running() {
    let server = native::with_boxes();
    let limits = json!({"resource_limits": {"pids": 64}});
    let session = native::boxed(&server, limits.clone());
    let seen = std::cell::Cell::new(0);
    a_bomb_is_outlived(&server, &session, &|| {
        let now = refusals(&server, &session);
        now > seen.replace(now)
    });
    let ordinary = ordinary_user::server();
    let session = native::boxed(&ordinary.server, limits);
    a_bomb_is_outlived(&ordinary.server, &session, &|| says_refused(&ordinary.server, &session));
}

#[test]
fn a_fork_bomb_that_a_call_left_behind_in_a_container_does_not_keep_the_next_one_from_running() {
    let server = podman::with_podman();
    let session = podman::boxed(&server, json!({"resource_limits": {"pids": 64, "disk": "64M"}}));
    a_bomb_is_outlived(&server, &session, &|| says_refused(&server, &session));
}
