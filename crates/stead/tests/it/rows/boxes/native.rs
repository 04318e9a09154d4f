//! The native provider over HTTP: the same tools, real processes, enforced limits, and no leaks.

use std::path::Path;
use std::process::Command;
use std::sync::Once;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use crate::rows::server;

/// Builds `stead-init`, which lies beside the server binary. A test run of this package alone does
/// not build it.
pub(crate) fn build_init() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let built = Command::new(cargo).args(["build", "--quiet", "-p", "stead-box", "--bins"]).status();
        assert!(built.unwrap().success(), "stead-init does not build");
    });
}

pub(in crate::rows) fn with_boxes() -> TestServer {
    build_init();
    server()
}

pub(in crate::rows) fn box_session(server: &TestServer, more: Value) -> Value {
    let mut workspace =
        json!({"enabled": true, "provider": "native", "workspace_policy": "empty", "require_workspace": true});
    workspace.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server.agent_type("n", workspace);
    let session = server.session(json!({"agent_type": "n"}));
    assert_eq!(
        (&session["status"], &session["workspace"]["provider"]),
        (&json!("active"), &json!("native")),
        "{session}"
    );
    session
}

pub(in crate::rows) fn bash(server: &TestServer, session: &Value, command: &str) -> Value {
    let answer = server.tool(session, "bash", json!({"command": command}));
    assert_eq!(answer["ok"], true, "{answer}");
    answer["result"].clone()
}

#[test]
fn x1_commands_run_and_tell() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let result = bash(&server, &session, "echo out; echo err >&2; exit 3");
    assert_eq!(
        (&result["exit_code"], &result["stdout"], &result["stderr"]),
        (&json!(3), &json!("out\n"), &json!("err\n"))
    );
    let long = bash(&server, &session, "head -c 100000 /dev/zero | tr '\\0' x; echo end");
    assert_eq!(
        (&long["truncated"], &long["stdout_total"]),
        (&json!(true), &json!(100_004)),
        "{}",
        long["stdout_total"]
    );
    assert!(long["stdout"].as_str().unwrap().ends_with("xend\n"), "the tail is kept");
    let python = server.tool(&session, "python", json!({"code": "print(6 * 7)"}));
    assert_eq!(python["result"]["stdout"], "42\n", "{python}");
    let refused = server.tool(&session, "bash", json!({"command": "x".repeat(131_072)}));
    assert_eq!(refused["ok"], false, "{refused}");
}

#[test]
fn x2_a_timeout_ends_every_descendant() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let nasty = "(setsid sleep 300 &) ; (trap '' TERM; sleep 300 & sleep 300) & sleep 300";
    let begun = Instant::now();
    let answer = server.tool(&session, "bash", json!({"command": nasty, "timeout": 1}));
    assert_eq!(
        (&answer["result"]["exit_code"], &answer["result"]["timed_out"]),
        (&json!(124), &json!(true)),
        "{answer}"
    );
    assert!(begun.elapsed() < Duration::from_secs(20));
    let left = bash(&server, &session, "ps -eo args | grep -c '[s]leep 300'");
    assert_eq!(left["stdout"], "0\n");
}

#[test]
fn x4_limits_hold() {
    let server = with_boxes();
    let limits = json!({"cpu": "1", "memory": "256M", "disk": "32M", "pids": 32});
    let session = box_session(&server, json!({"resource_limits": limits}));
    let enforced = session["workspace"]["limits"]["enforced"].as_array().unwrap().len();
    let reported =
        session["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == "limit_not_enforced");
    assert!(enforced == 4 || reported, "{session}");
    let disk = bash(&server, &session, "dd if=/dev/zero of=big bs=1M count=100 2>&1; rm -f big");
    assert!(disk["stdout"].as_str().unwrap().contains("No space left"), "{disk}");
    let pids = bash(&server, &session, "for i in $(seq 100); do sleep 5 & done 2>&1; wait -n; true");
    let output = format!("{}{}", pids["stdout"], pids["stderr"]);
    assert!(output.contains("Resource temporarily unavailable") || output.contains("retry"), "{output}");
    let memory = bash(&server, &session, "python3 -c 'x = bytearray(1 << 30)'");
    assert_ne!(memory["exit_code"], 0, "{memory}");
}

#[test]
fn x5_nothing_of_the_host_is_there() {
    let server = with_boxes();
    let session = box_session(&server, json!({}));
    let home = server.home().display().to_string();
    for command in [
        format!("cat {home}/token"),
        "cat /etc/shadow".to_owned(),
        "ls /root".to_owned(),
        "mount -t tmpfs x /mnt".to_owned(),
    ] {
        assert_ne!(bash(&server, &session, &command)["exit_code"], 0, "{command}");
    }
    let address = server.client().base().rsplit(':').next().unwrap().to_owned();
    let reach = format!("exec 3<>/dev/tcp/127.0.0.1/{address}");
    assert_ne!(bash(&server, &session, &reach)["exit_code"], 0, "the server's own port is reachable");
    let first = bash(&server, &session, "tr '\\0' ' ' < /proc/1/cmdline")["stdout"].clone();
    assert_eq!(first, "stead-init launch ", "the paths of the host are hidden");
    let env = bash(&server, &session, "env; cat /proc/1/environ 2>/dev/null; true")["stdout"].to_string();
    let token = std::fs::read_to_string(server.home().join("token")).unwrap();
    assert!(!env.contains(token.trim()), "{env}");
}

#[test]
fn s2_setup_stops_at_the_first_failure() {
    let server = with_boxes();
    let session = box_session(&server, json!({"setup_commands": ["echo one > one", "echo no >&2; false", "touch x"]}));
    let warning = session["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|warning| warning["code"] == "setup_failed")
        .unwrap()
        .clone();
    let message = warning["message"].as_str().unwrap();
    for word in ["2", "1", "no"] {
        assert!(message.contains(word), "{word} is not in {message}");
    }
    let paths = server.tool(&session, "glob", json!({"pattern": "**"}))["result"]["paths"].clone();
    assert_eq!(paths, json!(["one"]));
}

#[test]
fn s3_setup_past_its_time_leaves_no_survivor() {
    let server = with_boxes();
    let slow = json!({"setup_commands": ["(setsid sleep 60 &) ; sleep 60"], "setup_timeout_seconds": 1});
    let session = box_session(&server, slow);
    assert!(session["warnings"].to_string().contains("setup_failed"), "{session}");
    assert_eq!(bash(&server, &session, "ps -eo args | grep -c '[s]leep 60'")["stdout"], "0\n");
}

#[test]
fn s9_a_box_outlives_the_server_and_is_taken_up_again() {
    let mut server = with_boxes();
    let session = box_session(&server, json!({}));
    server.tool(&session, "write", json!({"path": "a.txt", "content": "kept"}));
    bash(&server, &session, "echo more > /tmp/also; (setsid sleep 1000 >/dev/null 2>&1 &)");
    server.restart(None);
    assert_eq!(server.tool(&session, "read", json!({"path": "a.txt"}))["result"]["content"], "kept");
    let after = bash(&server, &session, "cat /tmp/also; ps -eo args | grep -c '[s]leep 1000'");
    assert_eq!(after["stdout"], "more\n1\n", "the same box, with what ran in it");
    let id = session["id"].as_str().unwrap();
    assert_eq!(server.client().delete(&format!("/sessions/{id}")).status, 204);
    assert_eq!(server.client().delete(&format!("/sessions/{id}")).status, 204);
}

#[test]
fn f2_the_file_tools_answer_as_in_memory() {
    let server = with_boxes();
    let disk = box_session(&server, json!({}));
    server.agent_type("m", json!({"enabled": true, "provider": "memory", "workspace_policy": "empty"}));
    let memory = server.session(json!({"agent_type": "m"}));
    let calls = [
        ("write", json!({"path": "src/a.py", "content": "import os\nprint('hi')\n"})),
        ("write", json!({"path": "src/a.py", "content": "again"})),
        ("write", json!({"path": "b.txt", "content": "one\r\ntwo"})),
        ("write", json!({"path": "b.txt", "content": "\r\nthree", "mode": "append"})),
        ("read", json!({"path": "b.txt", "offset": 1, "limit": 1})),
        ("read", json!({"path": "nothing"})),
        ("edit", json!({"path": "b.txt", "old_string": "two", "new_string": "2"})),
        ("edit", json!({"path": "b.txt", "old_string": "e", "new_string": "E"})),
        ("edit", json!({"path": "b.txt", "old_string": "e", "new_string": "E", "replace_all": true})),
        ("glob", json!({"pattern": "**/*.py"})),
        ("glob", json!({"pattern": "src/*"})),
        ("grep", json!({"pattern": "pr.nt"})),
        ("grep", json!({"pattern": "("})),
        ("rm", json!({"path": "src", "if_match": "sha256:00"})),
        ("rm", json!({"path": "src"})),
        ("rm", json!({"path": "src"})),
        ("ls", json!({"path": "/nowhere"})),
        ("write", json!({"path": "../x", "content": "x"})),
        ("write", json!({"path": "b.txt/c", "content": "x"})),
    ];
    for (tool, arguments) in calls {
        let same = |session: &Value| {
            let mut answer = server.tool(session, tool, arguments.clone());
            for field in ["call_id", "seq"] {
                answer.as_object_mut().unwrap().remove(field);
            }
            if let Some(result) = answer.get_mut("result").and_then(Value::as_object_mut) {
                // Only in-memory files have a version counter.
                result.remove("version");
            }
            answer
        };
        assert_eq!(same(&disk), same(&memory), "{tool} {arguments}");
    }
}

#[test]
fn s9_what_waits_for_the_next_box_goes_with_the_server() {
    let mut server = with_boxes();
    let limits = json!({"resource_limits": {"disk": "80M"}});
    let first = box_session(&server, limits.clone());
    let spares = server.home().join("spares");
    // Wait for a spare with a loop device, which is attached last.
    let waiting = || {
        let mut found = std::fs::read_dir(&spares).into_iter().flatten().flatten().map(|entry| entry.path());
        found.find(|spare| spare.join("volume.loop").exists())
    };
    let abandoned = until("a helper waits", waiting);

    server.kill();
    until("its volume is let go", || (!bound_below(&spares)).then_some(()));
    server.restart(None);
    assert!(!abandoned.exists(), "{}", abandoned.display());
    bash(&server, &first, "echo kept > a");

    // The session after the next one gets a spare volume: it is empty and has the requested limit.
    server.session(json!({"agent_type": "n"}));
    until("another waits", waiting);
    let last = server.session(json!({"agent_type": "n"}));
    assert_eq!(last["workspace"]["limits"]["enforced"], first["workspace"]["limits"]["enforced"]);
    assert_eq!(bash(&server, &last, "cat <(ls -A /workspace) <(ls -A /tmp) <(ls -A ~)")["stdout"], "");
    let past = server.tool(&last, "bash", json!({"command": "head -c 100M /dev/zero > large"}));
    assert!(past["result"]["stderr"].as_str().unwrap().contains("No space left"), "{past}");
}

/// Returns true if a loop device is backed by a file below this directory.
fn bound_below(directory: &Path) -> bool {
    let backing = |device: &Path| std::fs::read_to_string(device.join("loop/backing_file")).unwrap_or_default();
    let mut devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten().map(|entry| entry.path());
    devices.any(|device| backing(&device).starts_with(&*directory.to_string_lossy()))
}
