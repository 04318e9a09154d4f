//! The sockets of a box across restarts, snapshots and pauses, and what a dead box leaves.

use serde_json::{Value, json};
use stead_testkit::{Outside, ServerOptions, until};

use super::{DIAL, Networked, User, echo, nobody_was_reached, outside_cases, podman_cases};

outside_cases! {
    a_killed_server_takes_the_network_up_again,
    snapshots_pauses_and_dead_boxes_keep_the_network_usable,
    no_byte_before_the_first_record,
    dead_boxes_leave_no_network,
}

podman_cases! {
    a_killed_server_takes_the_network_up_again,
    snapshots_pauses_and_dead_boxes_keep_the_network_usable,
    dead_boxes_leave_no_network,
}

fn works(networked: &Networked, session: &Value) {
    let code = format!("{DIAL}\nprint(dial('db.example', 7000))");
    assert_eq!(networked.python(session, &code), "hello end\n", "{}", networked.server.log());
}

fn a_killed_server_takes_the_network_up_again(_: &Outside, user: User) {
    let mut networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": [echo("db.example")]}}));
    works(&networked, &session);
    // A connection that is open when the server dies.
    let hold = "python3 -c 'import socket; s = socket.create_connection((\"db.example\", 7000)); s.send(b\"x\"); s.recv(1); open(\"/tmp/open\", \"w\"); s.recv(1)'";
    networked
        .prints(&session, &format!("setsid {hold} >/dev/null 2>&1 & until test -e /tmp/open; do sleep 0.05; done"));
    networked.server.kill();
    networked.server.start_again();
    works(&networked, &session);
    let network = networked.network(&session);
    assert_eq!(network["uncounted"], true, "{network}");
    // A clean stop counts everything.
    assert!(networked.server.terminate().unwrap().success());
    networked.server.start_again();
    works(&networked, &session);
    let windows: Vec<Value> =
        networked.events(&session, "NetworkTallied").iter().map(|event| event["window"].clone()).collect();
    assert_eq!(windows.iter().filter(|window| **window == "uncounted").count(), 1, "{windows:?}");
    assert!(windows.contains(&json!("closed")), "{windows:?}");
}

fn snapshots_pauses_and_dead_boxes_keep_the_network_usable(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": [echo("db.example")]}}));
    let id = session["id"].as_str().unwrap();
    works(&networked, &session);
    let snapshot = networked.server.client().post(&format!("/sessions/{id}/snapshots"), json!({})).expect(201);
    works(&networked, &session);
    let path = format!("/sessions/{id}/snapshots/{}/restore", snapshot["id"].as_str().unwrap());
    networked.server.client().post(&path, json!({})).expect(200);
    works(&networked, &session);
    networked.server.client().post(&format!("/sessions/{id}/pause"), json!({"mode": "stop"})).expect(200);
    networked.server.client().post(&format!("/sessions/{id}/resume"), json!({})).expect(200);
    works(&networked, &session);
    // The box is killed. The next call starts another one.
    networked.server.tool(&session, "bash", json!({"command": "kill -9 1; kill -9 -1", "timeout": 5}));
    works(&networked, &session);
}

fn no_byte_before_the_first_record(outside: &Outside, user: User) {
    let options = ServerOptions::default().failpoints("network.opened=pause");
    let mut networked = Networked::with(user, options);
    let session = networked.session(json!({"agent": {"allow": [echo("db.example")]}}));
    let dial = format!(
        "cat > /tmp/dial.py <<'END'\n{DIAL}\nprint(dial('db.example', 7000))\nEND\nsetsid python3 /tmp/dial.py >/dev/null 2>&1 & sleep 3"
    );
    networked.prints(&session, &dial);
    nobody_was_reached(outside);
    networked.server.kill();
    nobody_was_reached(outside);
    assert!(networked.server.log().len() < 1 << 20);
    // The control: without the pause the same program is recorded and passes.
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": [echo("db.example")]}}));
    works(&networked, &session);
    assert_eq!(networked.events(&session, "NetworkOpened").len(), 1);
    assert_eq!(outside.log("connections").len(), 1);
}

/// Number of network namespaces of the kernel, with those that no process is in.
fn namespaces() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/slabinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("net_namespace"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn dead_boxes_leave_no_network(_: &Outside, user: User) {
    let networked = Networked::new(user);
    let session = networked.session(json!({"agent": {"allow": [echo("db.example")]}}));
    works(&networked, &session);
    let descriptors = |networked: &Networked| {
        let pid = networked.server.pid().unwrap();
        std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
    };
    let (before, before_kernel) = (descriptors(&networked), namespaces());
    for _ in 0..20 {
        let session = networked.server.session(json!({"agent_type": "net0"}));
        works(&networked, &session);
        networked.server.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(204);
    }
    until("the sockets of dead boxes to go", || (descriptors(&networked) <= before + 6).then_some(()));
    // Other tests have boxes at the same time, so this only finds a leak of every box.
    if let (Some(before), Some(_)) = (before_kernel, namespaces()) {
        until("the namespaces of dead boxes to go", || (namespaces()? < before + 18).then_some(()));
    }
}
