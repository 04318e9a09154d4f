//! A process limit that always applies, limits too small to start a box, and a fork bomb that
//! survives its call.

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use super::ordinary_user;
use crate::rows::boxes::{native, podman};
use crate::rows::server_with;

/// Starts as many processes as the box allows, none of which ends by itself. Refused forks are
/// reported in the file `refused-{round}`.
fn bomb(round: usize) -> String {
    format!("bomb() {{ bomb | bomb & sleep 1000; }}; (bomb >/dev/null 2>refused-{round} &); true")
}

fn enforced(session: &Value) -> Vec<&str> {
    session["workspace"]["limits"]["enforced"].as_array().unwrap().iter().map(|kind| kind.as_str().unwrap()).collect()
}

#[test]
fn a_box_has_a_limit_of_processes_that_nobody_asked_for() {
    let server = native::with_boxes();
    let session = native::box_session(&server, json!({}));
    assert_eq!(session["workspace"]["limits"]["pids"], 512, "{session}");
    assert!(enforced(&session).contains(&"pids"), "{session}");
    let forks = "import os, time\nn = 0\ntry:\n  while n < 2_000:\n    if os.fork() == 0: time.sleep(60)\n    n += 1\nexcept BlockingIOError: print(n)\nos.killpg(0, 9)";
    let forked = server.tool(&session, "bash", json!({"command": format!("python3 -u - <<'END'\n{forks}\nEND\ntrue")}));
    let count = forked["result"]["stdout"].as_str().unwrap().trim().parse::<u32>();
    assert!(count.as_ref().is_ok_and(|count| (400..512).contains(count)), "{forked}");
    // The control: a larger limit is granted on request.
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
    let session = native::box_session(&server, json!({}));
    assert_eq!(session["workspace"]["limits"]["pids"], 100, "{session}");
    let ordinary = ordinary_user::server();
    let session = native::box_session(&ordinary.server, json!({}));
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
    // The control: a box with the smallest values works.
    let smallest = json!({"pids": 16, "disk": "1M", "memory": "16M"});
    let session = native::box_session(&server, json!({"resource_limits": smallest}));
    let output = native::bash(&server, &session, "echo kept > a; cat a");
    assert_eq!(output["stdout"], "kept\n", "{output}");
}

/// Leaves a fork bomb behind. The next calls still run, including the processes that they start.
/// `refusals` counts the forks that were refused to the bomb of a round.
fn a_bomb_is_outlived(server: &TestServer, session: &Value, refusals: &dyn Fn(usize) -> u64) {
    for round in 0..2 {
        let before = refusals(round);
        let left = server.tool(session, "bash", json!({"command": bomb(round)}));
        assert_eq!(left["ok"], true, "{left}");
        // The control: the box cannot start one more process.
        until("the box is full", || (refusals(round) > before).then_some(()));
        let pipe = format!("for i in 1 2 3; do echo {round} | cat | cat; done");
        let next = server.tool(session, "bash", json!({"command": pipe, "timeout": 60}));
        assert_eq!(
            (&next["result"]["stdout"], &next["result"]["stderr"]),
            (&json!(format!("{round}\n").repeat(3)), &json!("")),
            "round {round}"
        );
        let file = server.tool(session, "write", json!({"path": "a.txt", "content": "x", "mode": "overwrite"}));
        assert_eq!(file["ok"], true, "{file}");
    }
}

/// Returns how often the kernel refused a process to the session's box.
fn refusals(server: &TestServer, session: &Value) -> u64 {
    let id = session["workspace"]["id"].as_str().unwrap();
    let record = std::fs::read_to_string(server.home().join("boxes").join(id).join("box.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let groups = record["cgroups"].as_array().unwrap().iter().map(|group| group.as_str().unwrap());
    let events = groups.filter_map(|group| std::fs::read_to_string(format!("{group}/pids.events")).ok());
    events.flat_map(|text| text.trim().strip_prefix("max ").and_then(|count| count.parse::<u64>().ok())).sum()
}

/// Returns how many refused processes the bomb of a round has reported.
fn reported_refusals(server: &TestServer, session: &Value, round: usize) -> u64 {
    let output = server.tool(session, "read", json!({"path": format!("refused-{round}")}));
    let text = output["result"]["content"].as_str().unwrap_or_default();
    text.matches("Resource temporarily unavailable").count() as u64
}

#[test]
fn a_fork_bomb_that_a_call_left_behind_does_not_keep_the_next_one_from_running() {
    let server = native::with_boxes();
    let limits = json!({"resource_limits": {"pids": 64}});
    let session = native::box_session(&server, limits.clone());
    a_bomb_is_outlived(&server, &session, &|_| refusals(&server, &session));
    let ordinary = ordinary_user::server();
    let session = native::box_session(&ordinary.server, limits);
    a_bomb_is_outlived(&ordinary.server, &session, &|round| reported_refusals(&ordinary.server, &session, round));
}

#[test]
fn a_fork_bomb_that_a_call_left_behind_in_a_container_does_not_keep_the_next_one_from_running() {
    let server = podman::with_podman();
    let session = podman::box_session(&server, json!({"resource_limits": {"pids": 64, "disk": "64M"}}));
    a_bomb_is_outlived(&server, &session, &|round| reported_refusals(&server, &session, round));
}

/// A bomb that starts forking only when the next command runs. That command must not be the one
/// that fails.
#[test]
fn a_fork_bomb_that_fills_the_box_later_does_not_stop_the_running_command() {
    let server = native::with_boxes();
    let session = native::box_session(&server, json!({"resource_limits": {"pids": 64}}));
    let before = refusals(&server, &session);
    let delayed_bomb = format!("(while [ ! -e go ]; do sleep 0.1; done; {}) >/dev/null 2>&1 & true", bomb(0));
    let left = server.tool(&session, "bash", json!({"command": delayed_bomb}));
    assert_eq!(left["ok"], true, "{left}");
    // Waits until the bomb is refused a process, then starts processes of its own.
    let next = "touch go; until { read -r line < refused-0; } 2>/dev/null; do :; done; echo 1 | cat | cat";
    let next = server.tool(&session, "bash", json!({"command": next, "timeout": 60}));
    assert_eq!(next["result"]["stdout"], "1\n", "{next}");
    assert!(refusals(&server, &session) > before, "the control: the box was full");
}
