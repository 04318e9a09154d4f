//! `/workspace` of a container consists of layers: shared files are on the disk once, under runc
//! and under gVisor.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use stead_testkit::{GitServer, TestServer, until};

use super::podman::{agent_type, bash, containers_of, options, service, under, with_podman};
use crate::rows::{server_with, settled};

/// Size in bytes of the repository's large file, and of the one that an agent writes.
const LARGE: u64 = 16 << 20;

/// Disk usage of a directory in bytes, without file systems mounted below it.
fn taken(directory: &Path) -> u64 {
    let done = Command::new("du").args(["-sx", "--block-size=1"]).arg(directory).output().unwrap();
    String::from_utf8(done.stdout).unwrap().split_ascii_whitespace().next().unwrap().parse().unwrap()
}

/// A repository with a large file that does not compress.
fn repository(server: &TestServer) -> GitServer {
    let git = GitServer::start();
    server.client().put("/platform", json!({"allowed_git_hosts": [git.host()]})).expect(200);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::with_capacity(LARGE as usize);
    while (text.len() as u64) < LARGE {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{state:016x}"));
    }
    git.repository("one", &[("a", "1\n"), ("d/b", "2\n"), ("large", &text)]);
    let limits = json!({"cpu": "1", "memory": "256M", "disk": "128M", "pids": 128});
    agent_type(server, json!({"workspace_policy": "git", "resource_limits": limits}));
    git
}

fn session(server: &TestServer, git: &GitServer) -> Value {
    let session = server.session(json!({"agent_type": "p", "task": {"context": {"repository_url": git.url("one")}}}));
    assert_eq!((&session["status"], &session["workspace"]["trees"]), (&json!("active"), &json!("shared")), "{session}");
    session
}

fn path(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

fn many_sessions_have_one_checkout(server: &TestServer, sessions: usize) {
    let git = repository(server);
    let first = session(server, &git);
    let before = taken(server.home());
    assert!(before > LARGE);
    let others: Vec<Value> = (1..sessions).map(|_| session(server, &git)).collect();
    let more = taken(server.home()) - before;
    assert!(more < LARGE, "{more} bytes for {} sessions more of {LARGE} bytes each", others.len());
    let usage = server.client().get("/usage").expect(200);
    assert_eq!(usage["layers"]["count"], 1, "{usage}");

    // Each session owns all files and sees none of the others' changes.
    let owners = "import os; print({(os.lstat(p).st_uid, os.lstat(p).st_gid) for p in ('.', 'a', 'd', 'large')})";
    let seen = format!("cat a d/b; python3 -c \"{owners}\"; wc -c < large");
    let whole = format!("1\n2\n{{(1000, 1000)}}\n{LARGE}\n");
    let [changed, same, ..] = others.as_slice() else { panic!("too few") };
    bash(server, changed, "echo mine > a; rm -r d; mkdir d; echo new > d/c; chmod +x large; mv large big");
    for other in [same, &first] {
        let result = bash(server, other, &seen);
        assert_eq!(result["stdout"], json!(whole), "{result}");
    }
    assert_eq!(bash(server, changed, "cat a d/*; ls")["stdout"], "mine\nnew\na\nbig\nd\n");
    let diff = server.client().get(&path(changed, "/diff")).expect(200);
    assert_eq!(diff["changed"], json!(["a", "big", "d/b", "d/c", "large"]), "{diff}");
    assert!(diff["patch"].as_str().unwrap().contains("-1\n+mine\n"), "{diff}");
    assert_eq!(server.client().get(&path(same, "/diff")).expect(200)["changed"], json!([]));
}

#[test]
fn g_twenty_sessions_of_a_repository_take_one_checkout() {
    many_sessions_have_one_checkout(&with_podman(), 20);
}

#[test]
fn g_sessions_under_gvisor_take_one_checkout() {
    let service = service("runsc");
    many_sessions_have_one_checkout(&under(&service, "runsc"), 3);
}

fn a_clone_takes_no_second_copy(mut server: TestServer) {
    agent_type(&server, json!({}));
    let origin = server.session(json!({"agent_type": "p"}));
    bash(&server, &origin, &format!("head -c {LARGE} /dev/urandom > large; sync large; sha256sum < large > sum"));
    let before = taken(server.home());
    let made = server.client().post(&path(&origin, "/clone?wait=60"), json!({"isolation": "full"})).expect(201);
    let clone = made["items"][0].clone();
    assert_eq!(clone["status"], "active", "{clone}");
    server.client().post(&path(&origin, "/snapshots"), json!({})).expect(201);
    let more = taken(server.home()) - before;
    assert!(more < LARGE / 2, "{more} bytes more for a clone and a snapshot");
    let check = "[ \"$(sha256sum < large)\" = \"$(cat sum)\" ] && cat other; ls";
    bash(&server, &origin, "echo origin > other");
    bash(&server, &clone, "echo clone > other");
    assert_eq!(bash(&server, &origin, check)["stdout"], "origin\nlarge\nother\nsum\n");
    // A clone's layers stay when its origin is closed, also after a restart of the server or of the
    // container.
    server.client().delete(&path(&origin, "")).expect(204);
    assert_eq!(bash(&server, &clone, check)["stdout"], "clone\nlarge\nother\nsum\n");
    server.restart(None);
    assert_eq!(bash(&server, &clone, check)["stdout"], "clone\nlarge\nother\nsum\n");
    let name = containers_of(&clone).remove(0);
    server.kill();
    stead_testkit::podman::shared().run(&["rm", "--force", "--time", "0", &name]);
    server.restart(None);
    assert_eq!(bash(&server, &clone, check)["stdout"], "clone\nlarge\nother\nsum\n");
}

#[test]
fn g_a_clone_of_a_container_takes_no_second_copy() {
    a_clone_takes_no_second_copy(with_podman());
}

#[test]
fn g_a_clone_under_gvisor_takes_no_second_copy() {
    let service = service("runsc");
    a_clone_takes_no_second_copy(under(&service, "runsc"));
}

/// An agent cannot write the overlay's own markers into a tree that becomes a layer.
#[test]
fn g_marks_an_agent_forges_hide_nothing_in_a_layer() {
    let server = with_podman();
    agent_type(&server, json!({}));
    let origin = server.session(json!({"agent_type": "p"}));
    bash(&server, &origin, "mkdir src docs; echo b > src/b; echo d > docs/d; echo a > a");
    let first = clone_of(&server, &origin);
    let forge = "import os\n\
        def mark(path, name, value):\n\
        \x20 for space in ('user', 'trusted'):\n\
        \x20  try: os.setxattr(path, f'{space}.overlay.{name}', value)\n\
        \x20  except OSError: pass\n\
        os.utime('src'); open('src/x', 'w').close(); open('f', 'w').close()\n\
        for p in ('src', 'docs', 'f', '.'):\n\
        \x20 mark(p, 'opaque', b'y'); mark(p, 'opaque', b'x'); mark(p, 'redirect', b'/docs'); mark(p, 'whiteout', b'y'); mark(p, 'metacopy', b'')\n\
        for p in ('a', 'src/w', 'docs/w'):\n\
        \x20 try: os.mknod(p + '.wh', 0o020000, os.makedev(0, 0))\n\
        \x20 except OSError: pass\n";
    assert_eq!(server.tool(&first, "python", json!({"code": forge}))["result"]["exit_code"], 0);
    let second = clone_of(&server, &first);
    for session in [&first, &second] {
        let seen = bash(&server, session, "find . -type f | sort; cat docs/d src/b");
        assert_eq!(seen["stdout"], "./a\n./docs/d\n./f\n./src/b\n./src/x\nd\nb\n", "{seen}");
    }
    // The layers cannot be changed by another path either: the trees that a diff reads are
    // read-only.
    let written = bash(
        &server,
        &second,
        "for t in /.stead/trees /.stead/trees/*; do touch $t/x && echo $t; done; mount --bind . /tmp; true",
    );
    assert_eq!(written["stdout"], "", "{written}");
}

fn clone_of(server: &TestServer, session: &Value) -> Value {
    let made = server.client().post(&path(session, "/clone?wait=60"), json!({"isolation": "full"})).expect(201);
    assert_eq!(made["items"][0]["status"], "active", "{made}");
    made["items"][0].clone()
}

/// Servers are killed while trees are created, frozen and changed. `STEAD_CHURN` sets the number of
/// rounds.
#[test]
fn g_a_server_killed_while_trees_change_loses_nothing() {
    let rounds: u64 = std::env::var("STEAD_CHURN").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let mut server = with_podman();
    let git = repository(&server);
    let kept = session(&server, &git);
    for round in 0..rounds {
        bash(&server, &kept, &format!("echo {round} > round; mkdir -p n{round:03}"));
        let body = json!({"agent_type": "p", "task": {"context": {"repository_url": git.url("one")}}});
        let made = server.client().post("/sessions", body).expect(201);
        let (client, snapshots) = (server.client().clone(), path(&kept, "/snapshots"));
        let asking = std::thread::spawn(move || {
            let _ = client.try_send("POST", &snapshots, &[], Some("{}".to_owned()));
        });
        // A varying moment of the snapshot and of the other session's start.
        std::thread::sleep(Duration::from_millis(40 + round * 67 % 400));
        server.restart(None);
        asking.join().unwrap();
        let seen = bash(&server, &kept, "cat a round; ls -d n*; wc -c < large");
        let directories: String = (0..=round).map(|number| format!("n{number:03}\n")).collect();
        assert_eq!(seen["stdout"], json!(format!("1\n{round}\n{directories}{LARGE}\n")), "{seen}");
        let other = settled(&server, made["id"].as_str().unwrap());
        assert_eq!(other["status"], "active", "{other}\n{}", server.log());
        assert_eq!(bash(&server, &other, "cat a; wc -c < large")["stdout"], json!(format!("1\n{LARGE}\n")));
        server.client().delete(&path(&other, "")).expect(204);
    }
    let volumes = server.home().join("podman/volumes");
    until("only what is used is kept", || (std::fs::read_dir(&volumes).unwrap().count() == 1).then_some(()));
}

/// If layers cannot be mounted, the files are copied and the session says so.
#[test]
fn g_what_cannot_be_shared_is_copied_with_a_warning() {
    let server = server_with(options().env("STEAD_PODMAN_TREES", "copied"));
    let git = repository(&server);
    let session = server.session(json!({"agent_type": "p", "task": {"context": {"repository_url": git.url("one")}}}));
    assert_eq!(session["workspace"]["trees"], "copied", "{session}");
    assert_eq!(bash(&server, &session, "cat a; echo 3 > a; wc -c < large")["stdout"], json!(format!("1\n{LARGE}\n")));
    let diff = server.client().get(&path(&session, "/diff")).expect(200);
    assert_eq!(diff["changed"], json!(["a"]), "{diff}");
    let odd = Command::new(env!("CARGO_BIN_EXE_stead"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .env("STEAD_PODMAN_TREES", "some")
        .env("STEAD_HOME", server.home().join("odd"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&odd.stderr).into_owned();
    assert!(!odd.status.success() && printed.contains("STEAD_PODMAN_TREES") && printed.contains("copied"), "{printed}");
}

/// Running processes survive a snapshot, which is a copy in that case; a restore ends them.
fn a_box_at_work_is_copied_and_ended_by_a_restore(server: &TestServer) {
    agent_type(server, json!({}));
    let session = server.session(json!({"agent_type": "p"}));
    bash(server, &session, "echo one > a; (setsid sleep 600 >/dev/null 2>&1 &)");
    let kept = server.client().post(&path(&session, "/snapshots"), json!({})).expect(201);
    assert_eq!(bash(server, &session, "rm a; echo two > b; pgrep -c sleep")["stdout"], "1\n");
    let restore = path(&session, &format!("/snapshots/{}/restore", kept["id"].as_str().unwrap()));
    server.client().post(&restore, json!({})).expect(200);
    let seen = bash(server, &session, "cat a; ls; pgrep -c sleep");
    assert_eq!(seen["stdout"], "one\na\n0\n", "{seen}");
    assert_eq!(server.client().get(&path(&session, "/diff")).expect(200)["changed"], json!(["a"]));
}

#[test]
fn g_a_container_at_work_is_copied_and_ended_by_a_restore() {
    a_box_at_work_is_copied_and_ended_by_a_restore(&with_podman());
}

#[test]
fn g_gvisor_at_work_is_copied_and_ended_by_a_restore() {
    let service = service("runsc");
    a_box_at_work_is_copied_and_ended_by_a_restore(&under(&service, "runsc"));
}
