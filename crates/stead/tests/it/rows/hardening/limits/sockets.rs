//! Socket buffers are memory too, and a box's share is bounded. Cgroup version 1 counts them
//! separately, and netlink replies are not counted at all.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use crate::rows::boxes::execs::{at, begin, ended};
use crate::rows::boxes::{native, podman};
use crate::rows::put;

const PROGRAM: &str = include_str!("sockets.py");
const MEMORY: u64 = 64 << 20;

fn start(server: &TestServer, session: &Value, kind: &str) -> String {
    begin(server, session, &format!("python3 sockets.py {kind} {kind}.told"))
}

/// The version 1 memory cgroup of a session's box.
fn memory_group(server: &TestServer, session: &Value) -> Option<PathBuf> {
    let id = session["workspace"]["id"].as_str().unwrap();
    let record = fs::read_to_string(server.home().join("boxes").join(id).join("box.json")).ok()?;
    let record: Value = serde_json::from_str(&record).unwrap();
    let groups = record["cgroups"].as_array().unwrap().iter().map(|path| PathBuf::from(path.as_str().unwrap()));
    groups.into_iter().find(|group| group.join("memory.kmem.tcp.usage_in_bytes").exists())
}

fn number(file: &Path) -> u64 {
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

/// Waits until the buffers are full; the program keeps holding them.
fn fill(server: &TestServer, session: &Value, kind: &str) -> String {
    let exec = start(server, session, kind);
    until(&format!("the {kind} buffers are full"), || {
        let answer = server.tool(session, "read", json!({"path": format!("{kind}.told")}));
        (answer["ok"] == true).then_some(())
    });
    exec
}

#[test]
fn buffers_of_tcp_and_udp_stay_within_the_limit_of_a_native_box() {
    let server = native::with_boxes();
    let session = native::box_session(&server, json!({"resource_limits": {"memory": "64M"}}));
    put(&server, &session, "sockets.py", PROGRAM.as_bytes());
    let Some(group) = memory_group(&server, &session) else {
        // Cgroup version 2 counts them as memory, whose limit other tests check.
        return;
    };
    let limit = number(&group.join("memory.kmem.tcp.limit_in_bytes"));
    assert_eq!(limit, MEMORY / 8);
    for kind in ["tcp", "udp"] {
        let exec = fill(&server, &session, kind);
        let used = number(&group.join("memory.kmem.tcp.usage_in_bytes"));
        // The kernel grants every TCP socket a minimum, whatever the limit.
        assert!(used < 2 * MEMORY, "{kind}: {used} bytes of socket buffers in a box of {MEMORY}");
        // The control: the box filled what it could get.
        assert!(used > limit / 2, "{kind}: only {used} bytes of socket buffers were filled");
        server.client().delete(&at(&session, &format!("/{exec}"))).expect(204);
    }
}

fn netlink_is_ended(server: &TestServer, session: &Value) {
    put(server, session, "sockets.py", PROGRAM.as_bytes());
    let ended = ended(server, session, &start(server, session, "netlink"));
    assert_eq!((&ended["exit_code"], &ended["oom"]), (&json!(137), &json!(true)), "{ended}");
    // The box still works: the sockets that a usual program needs are available.
    let few =
        "python3 -c 'import socket; print(len([socket.socket(16, 3, 0) for _ in range(64)]), socket.if_nameindex())'";
    let few = server.tool(session, "bash", json!({"command": few}))["result"].clone();
    assert_eq!(few["exit_code"], 0, "{few}");
    assert!(few["stdout"].as_str().unwrap().starts_with("64 "), "{few}");
}

#[test]
fn a_native_box_with_too_many_netlink_sockets_is_ended_and_goes_on() {
    let server = native::with_boxes();
    netlink_is_ended(&server, &native::box_session(&server, json!({})));
    // The control: on the host, in its own network namespace, the same program is not killed.
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("output");
    let mut outside =
        Command::new("unshare").args(["--net", "python3", "-c", PROGRAM, "netlink"]).arg(&file).spawn().unwrap();
    let sockets = until("the program has its sockets", || fs::read_to_string(&file).ok());
    outside.kill().unwrap();
    outside.wait().unwrap();
    assert!(sockets.parse::<u32>().unwrap() > 1_000, "{sockets}");
}

#[test]
fn a_container_with_too_many_netlink_sockets_is_ended_and_goes_on() {
    let server = podman::with_podman();
    netlink_is_ended(&server, &podman::box_session(&server, json!({})));
}

#[test]
fn a_box_cannot_enlarge_the_buffer_of_a_socket() {
    let server = native::with_boxes();
    let session = native::box_session(&server, json!({}));
    let enlarge = "import socket\ns = socket.socket()\nb = s.getsockopt(1, 8)\ns.setsockopt(1, 8, 4 * b)\nprint(s.getsockopt(1, 8) > b)";
    let inside = server.tool(&session, "python", json!({"code": enlarge}));
    assert_eq!(inside["result"]["stdout"], "False\n", "{inside}");
    let outside = Command::new("python3").args(["-c", enlarge]).output().unwrap();
    assert_eq!(String::from_utf8(outside.stdout).unwrap(), "True\n");
}
