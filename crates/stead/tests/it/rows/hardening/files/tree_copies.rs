//! The cost of a tree copy depends on its data and not on its holes, and a close ends the copy.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stead_testkit::{TestServer, until};

use crate::rows::boxes::native;
use crate::rows::{Files, server};

/// Copying the holes of such a file would take an hour, so a call that answers has skipped them.
const TERABYTE: u64 = 1 << 40;
const MIDDLE: u64 = 1000 << 20;
const MAKE: &str = "printf start > big && printf middle | dd of=big bs=1M seek=1000 conv=notrunc 2>/dev/null && \
                    truncate -s 1T big && head -c 1000000 /dev/zero | tr '\\0' x > dense";
const LOOK: &str = "stat -c '%s %b' big; head -c 5 big; dd if=big bs=1M skip=1000 count=1 2>/dev/null | head -c 6; \
                    tr -d x < dense | wc -c; stat -c '%s %b' dense";

fn path(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

#[track_caller]
fn bash(server: &TestServer, session: &Value, command: &str) -> String {
    let answer = server.tool(session, "bash", json!({"command": command}));
    assert_eq!(answer["result"]["exit_code"], 0, "{command}: {answer}");
    answer["result"]["stdout"].as_str().unwrap().to_owned()
}

/// Asserts that the box has both files unchanged: the long one with its holes and, as the control,
/// the dense one with all its blocks.
#[track_caller]
fn has_both(server: &TestServer, session: &Value) {
    let seen = bash(server, session, LOOK);
    let lines: Vec<&str> = seen.lines().collect();
    let [big, rest, dense] = lines[..] else { panic!("{seen}") };
    let numbers = |line: &str| line.split(' ').map(|number| number.parse().unwrap()).collect::<Vec<u64>>();
    assert_eq!(numbers(big)[0], TERABYTE, "{seen}");
    assert!(numbers(big)[1] * 512 < 1 << 20, "the holes take no space: {seen}");
    assert_eq!(rest, "startmiddle0", "{seen}");
    assert_eq!(numbers(dense)[0], 1_000_000, "{seen}");
    assert!(numbers(dense)[1] * 512 >= 1_000_000, "data takes its space: {seen}");
}

fn session_at_work(rewind: Value) -> (TestServer, Value) {
    let server = Files::Disk.server();
    let workspace = json!({"enabled": true, "provider": Files::Disk.provider(), "workspace_policy": "empty",
        "require_workspace": true, "resource_limits": {"disk": "64M"}, "rewind": rewind});
    server.agent_type("w", workspace);
    let session = server.session(json!({"agent_type": "w"}));
    assert_eq!(session["status"], "active", "{session}");
    let running = json!({"command": "sleep 600", "background": true});
    server.client().post(&path(&session, "/execs"), running).expect(201);
    (server, session)
}

#[test]
fn a_snapshot_with_a_running_process_copies_the_data_of_a_sparse_terabyte() {
    let (server, session) = session_at_work(json!({"points": "off"}));
    bash(&server, &session, MAKE);
    let kept = server.client().post(&path(&session, "/snapshots"), json!({})).expect(201);
    bash(&server, &session, "rm big dense");
    let restore = path(&session, &format!("/snapshots/{}/restore", kept["id"].as_str().unwrap()));
    server.client().post(&restore, json!({})).expect(200);
    has_both(&server, &session);
}

#[test]
fn checkpoints_by_copies_take_the_data_of_a_sparse_terabyte() {
    let (server, session) = session_at_work(json!({"points": "copies"}));
    bash(&server, &session, MAKE);
    bash(&server, &session, "echo later > later");
    let checkpoints = server.client().get(&path(&session, "/rewind")).expect(200);
    let made = checkpoints["items"].as_array().unwrap().iter().rev().nth(1).unwrap();
    assert!(made["snapshot"].is_string(), "{checkpoints}");
    bash(&server, &session, "rm big dense");
    server.client().post(&path(&session, "/rewind"), json!({"to": made["seq"]})).expect(200);
    has_both(&server, &session);
    assert_eq!(bash(&server, &session, "ls later 2>/dev/null || true"), "");
}

struct Host {
    server: TestServer,
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        native::build_init();
        let (server, root) = (server(), folder.path().to_str().unwrap());
        let platform = json!({"allowed_host_roots": [root], "allowed_root_owned_mounts": [root]});
        server.client().put("/platform", platform).expect(200);
        server.agent_type("h", json!({"enabled": true, "provider": "native", "require_workspace": true}));
        fs::create_dir(folder.path().join("d")).unwrap();
        Self { server, folder }
    }

    fn directory(&self) -> PathBuf {
        self.folder.path().join("d")
    }

    fn order(&self, mode: &str) -> Value {
        let policy = json!({"type": "mount", "host_path": self.directory().to_str().unwrap(), "mode": mode});
        json!({"agent_type": "h", "task": {"workspace_policy": policy}})
    }
}

#[test]
fn a_host_directory_with_a_sparse_terabyte_is_mounted() {
    let host = Host::new();
    let big = File::create(host.directory().join("big")).unwrap();
    big.write_all_at(b"start", 0).unwrap();
    big.write_all_at(b"middle", MIDDLE).unwrap();
    big.set_len(TERABYTE).unwrap();
    fs::write(host.directory().join("dense"), vec![b'x'; 1_000_000]).unwrap();
    big.sync_all().unwrap();
    let blocks = big.metadata().unwrap().blocks();
    for mode in ["overlay", "rw"] {
        let session = host.server.session(host.order(mode));
        assert_eq!(session["status"], "active", "{mode}: {session}");
        has_both(&host.server, &session);
        // The comparison sees that the long file is unchanged, and which file is not.
        bash(&host.server, &session, &format!("echo {mode} > new"));
        let diff = host.server.client().get(&path(&session, "/diff")).expect(200);
        assert_eq!(diff["changed"], json!(["new"]), "{mode}: {diff}");
        bash(&host.server, &session, "printf x | dd of=big bs=1M seek=500 conv=notrunc 2>/dev/null");
        let diff = host.server.client().get(&path(&session, "/diff")).expect(200);
        assert_eq!((&diff["changed"], &diff["unshown"]), (&json!(["big", "new"]), &json!(["big"])), "{mode}: {diff}");
        if mode == "overlay" {
            // The control for the copy: the host's file is still the original one.
            assert_eq!(fs::metadata(host.directory().join("big")).unwrap().blocks(), blocks);
        }
    }
}

/// Creates a directory whose copy takes far longer than a test: many names of one file. Its zeros
/// are data on the host and take no space in a copy.
fn long_to_copy(directory: &Path, names: usize) {
    let mut first = File::create(directory.join("0")).unwrap();
    let piece = vec![0; 1 << 20];
    (0..256).for_each(|_| first.write_all(&piece).unwrap());
    for number in 1..names {
        fs::hard_link(directory.join("0"), directory.join(number.to_string())).unwrap();
    }
}

/// Returns true if the server reads below this directory, or writes an unlinked file of more than a
/// megabyte.
fn is_copying(server: &TestServer, from: &Path) -> bool {
    let fds = fs::read_dir(format!("/proc/{}/fd", server.pid().unwrap())).unwrap();
    fds.filter_map(|fd| fd.ok()).any(|fd| {
        let Ok(target) = fs::read_link(fd.path()) else { return false };
        let spool = target.to_string_lossy().ends_with(" (deleted)");
        target.starts_with(from) && target != from
            || spool && fs::metadata(fd.path()).is_ok_and(|facts| facts.is_file() && facts.len() > 1 << 20)
    })
}

fn a_close_ends_the_copy(mode: &str, names: usize) {
    let host = Host::new();
    long_to_copy(&host.directory(), names);
    let (client, from) = (host.server.client(), host.directory().canonicalize().unwrap());
    let begun = client.post("/sessions", host.order(mode)).json();
    // The close arrives during the copy.
    until("the copy to begin", || is_copying(&host.server, &from).then_some(()));
    client.delete(&path(&begun, ""));
    until("the session to be closed", || {
        (client.get(&path(&begun, "")).expect(200)["status"] == "closed").then_some(())
    });
    until("the copy to end", || (!is_copying(&host.server, &from)).then_some(()));
}

#[test]
fn a_close_ends_the_copy_of_an_overlay_directory() {
    a_close_ends_the_copy("overlay", 4096);
}

/// Fewer names, because the box sends zeros that are data as data.
#[test]
fn a_close_ends_the_copy_of_a_writable_directory() {
    a_close_ends_the_copy("rw", 64);
}
