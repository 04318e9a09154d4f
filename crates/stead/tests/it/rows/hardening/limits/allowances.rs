//! Kernel resources that are counted per user or for the whole host. One box uses all that it can
//! get, and a second box and the host still work.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use super::ordinary_user;
use crate::rows::boxes::{native, podman};
use crate::rows::put;

const PROGRAM: &str = include_str!("allowances.py");
/// Runs one test at a time: containers share root's limits with the host, and other tests check
/// those.
static ALONE: Mutex<()> = Mutex::new(());

/// A resource and the most that a box may get of it: with a user of its own, and with a shared
/// user.
const KINDS: &[(&str, u64, u64)] = &[
    ("inotify", 128, 32),
    ("message_queue", 16, 1),
    ("queued_signal", 4_096, 1_024),
    ("terminal", 64, 64),
    ("pipe_buffer", 1_024, 1_024),
];

/// Makes a box use up a resource and returns how many it got. The box keeps them until the session
/// is closed.
fn exhaust(server: &TestServer, session: &Value, kind: &str) -> u64 {
    let command = format!("rm -f {kind}.count; python3 allowances.py exhaust {kind} {kind}.count >/dev/null 2>&1 &");
    assert_eq!(server.tool(session, "bash", json!({"command": command}))["result"]["exit_code"], 0);
    let answer = until(&format!("the box has used up {kind}"), || {
        let read = server.tool(session, "read", json!({"path": format!("{kind}.count")}));
        read["result"]["content"].as_str().map(str::to_owned)
    });
    let (count, error) = answer.split_once(' ').unwrap();
    // The control: the kernel refused the next one, so the box holds the maximum.
    assert_ne!(error, "0", "{kind}: the box was never refused, after {count}");
    count.parse().unwrap()
}

fn one(server: &TestServer, session: &Value, kind: &str) -> Value {
    let command = format!("python3 allowances.py one {kind}");
    server.tool(session, "bash", json!({"command": command}))["result"]["stdout"].clone()
}

/// Takes one on the host, as the user who runs the server.
fn one_on_the_host(kind: &str, user: Option<u32>) -> String {
    let mut command = match user {
        None => Command::new("python3"),
        Some(user) => ordinary_user::command(user, "python3"),
    };
    let output = command.args(["-c", PROGRAM, "one", kind]).current_dir("/").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Own,
    Shared,
}

fn nobody_starves(server: &TestServer, agent_type: &str, expect: Expect, user: Option<u32>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let sessions = [(); 2].map(|()| server.session(json!({"agent_type": agent_type})));
    for session in &sessions {
        assert_eq!(session["status"], "active", "{session}");
        put(server, session, "allowances.py", PROGRAM.as_bytes());
    }
    let [hostile, neighbour] = &sessions;
    for (kind, own, shared) in KINDS {
        let most = if expect == Expect::Own { *own } else { *shared };
        // A shared allowance is also used by the boxes of other tests, which may give some back
        // between the two steps.
        let refused = (0..5).any(|attempt| {
            let count = exhaust(server, hostile, kind);
            assert!(count <= most && (attempt > 0 || count > 0), "{kind}: a box got {count}, more than {most}");
            one(server, hostile, kind) != "ok\n"
        });
        assert!(refused, "{kind}: the box that used it up got another");
    }
    // The hostile box holds all resources at once, and the second box and the host can still take
    // one of each. Only the pipe buffers of an ordinary user have no limit per box; the session has
    // a warning for that.
    let bounded = |kind: &&(&str, u64, u64)| user.is_none() || kind.0 != "pipe_buffer";
    for (kind, ..) in KINDS.iter().filter(bounded) {
        assert_eq!(one(server, neighbour, kind), "ok\n", "{kind}: the second box is starved");
        assert_eq!(one_on_the_host(kind, user), "ok\n", "{kind}: the host is starved");
    }
    // Asynchronous I/O has one limit for the whole host, so no box may use it.
    assert_eq!(one(server, hostile, "asynchronous_io"), format!("{}\n", libc_enosys()));
    assert_eq!(one_on_the_host("asynchronous_io", user), "ok\n");
    let warned = hostile["warnings"].as_array().unwrap().iter().any(|warning| {
        let message = warning["message"].as_str().unwrap();
        warning["code"] == "limit_not_enforced" && message.contains("inotify")
    });
    let (answer, told_of) = match expect {
        Expect::Own => ("own", false),
        Expect::Shared => ("shared", true),
    };
    assert_eq!((&hostile["workspace"]["allowances"], warned), (&json!(answer), told_of), "{hostile}");
}

/// `ENOSYS`, as Python prints it.
fn libc_enosys() -> i32 {
    rustix::io::Errno::NOSYS.raw_os_error()
}

#[test]
fn one_native_box_cannot_use_up_the_kernel_allowances_of_another_or_of_root() {
    let server = native::with_boxes();
    server.agent_type("n", json!({"enabled": true, "provider": "native", "workspace_policy": "empty"}));
    nobody_starves(&server, "n", Expect::Own, None);
}

#[test]
fn one_container_cannot_use_up_the_kernel_allowances_of_another_or_of_root() {
    let service = podman::service("runc");
    let server = podman::under(&service, "runc");
    podman::agent_type(&server, json!({}));
    nobody_starves(&server, "p", Expect::Shared, None);
}

#[test]
fn a_server_of_an_ordinary_user_bounds_the_allowances_of_a_box_and_says_that_they_are_shared() {
    let ordinary = ordinary_user::server();
    let server = &ordinary.server;
    let limits = json!({"pids": 64});
    server.agent_type(
        "n",
        json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "resource_limits": limits}),
    );
    nobody_starves(server, "n", Expect::Shared, Some(ordinary.user));
}
