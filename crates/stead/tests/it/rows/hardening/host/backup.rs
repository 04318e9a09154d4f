//! After `stead stop --boxes` no box writes to a volume, so the home can be copied and the copy
//! restored.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer};

use super::removed_home;
use crate::rows::boxes::{native, podman};

const BINARY: &str = env!("CARGO_BIN_EXE_stead");

/// Mounted volumes of sessions. Spare volumes are ignored, because they may stay mounted for a
/// moment after their server has ended.
fn mounted(home: &Path) -> Vec<String> {
    removed_home::devices(home).into_iter().filter(|file| file.contains("/volumes/")).collect()
}

/// Runs `stead --json stop …` on a home and returns its answer.
fn stop(home: &Path, more: &[&str]) -> Value {
    let output = Command::new(BINARY).arg("--home").arg(home).args(["--json", "stop"]).args(more).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Packs a home with the commands of the operations guide and restores it.
fn pack_and_restore(home: &Path) {
    let (above, name) = (home.parent().unwrap(), home.file_name().unwrap());
    let archive = above.join("backup.tar.gz");
    let tar = |arguments: &[&str]| {
        let mut command = Command::new("tar");
        let output = command.arg("-C").arg(above).args(arguments).arg(&archive).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    tar(&["-S", "--exclude=spares", "-cz", name.to_str().unwrap(), "-f"]);
    std::fs::remove_dir_all(home).unwrap();
    tar(&["-xzf"]);
}

/// Disk usage of a directory's files in bytes.
fn allocated(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.metadata().unwrap() {
            found if found.is_dir() => allocated(&entry.path()),
            found => found.blocks() * 512,
        })
        .sum()
}

fn read(server: &TestServer, session: &Value, path: &str) -> String {
    let path = format!("/sessions/{}/files/{path}", session["id"].as_str().unwrap());
    String::from_utf8(server.client().bytes("GET", &path, &[], b"").expect(200)).unwrap()
}

#[test]
fn a_home_stopped_with_its_boxes_is_at_rest_and_its_copy_restores() {
    native::build_init();
    let above = tempfile::tempdir().unwrap();
    let home = above.path().join("home");
    let mut server = TestServer::start_at(BINARY, &home, ServerOptions::default());
    let session = native::box_session(&server, json!({"resource_limits": {"disk": "256M"}}));
    server.tool(&session, "write", json!({"path": "a", "content": "valuable"}));
    native::bash(&server, &session, "while :; do date > busy; sleep 0.01; done > /dev/null 2>&1 & echo started");

    server.terminate();
    // The control: without `--boxes` the box keeps running with its volume mounted.
    assert_eq!(stop(&home, &[]), json!({"stopped": false}));
    assert_eq!(mounted(&home).len(), 1, "{:?}", mounted(&home));
    assert_eq!(stop(&home, &["--boxes"]), json!({"stopped": false, "boxes_ended": 1}));
    assert_eq!(mounted(&home), Vec::<String>::new());
    assert_eq!(stop(&home, &["--boxes"]), json!({"stopped": false, "boxes_ended": 0}));

    pack_and_restore(&home);
    assert!(allocated(&home) < 64 << 20, "the copy takes {} bytes", allocated(&home));
    server.start_again();
    assert_eq!(read(&server, &session, "a"), "valuable");
    assert_eq!(native::bash(&server, &session, "cat a; pgrep -c sleep; true")["stdout"], "valuable0\n");
}

#[test]
fn stopping_a_copied_home_with_its_boxes_leaves_the_originals_alone() {
    native::build_init();
    let above = tempfile::tempdir().unwrap();
    let (home, copy) = (above.path().join("home"), above.path().join("copy"));
    let mut server = TestServer::start_at(BINARY, &home, ServerOptions::default());
    let session = native::box_session(&server, json!({}));
    native::bash(&server, &session, "sleep 1000 > /dev/null 2>&1 & echo started");
    server.terminate();
    // The exit code is ignored, because `cp` may fail on a socket. Only the records matter here.
    Command::new("cp").arg("-a").args([&home, &copy]).output().unwrap();
    assert!(copy.join("identity.json").exists());
    assert_eq!(stop(&copy, &["--boxes"])["boxes_ended"], 0);
    server.start_again();
    assert_eq!(native::bash(&server, &session, "pgrep -c sleep")["stdout"], "1\n");
    // The control: the home itself ends its box.
    server.terminate();
    assert_eq!(stop(&home, &["--boxes"])["boxes_ended"], 1);
    server.start_again();
    assert_eq!(native::bash(&server, &session, "pgrep -c sleep; true")["stdout"], "0\n");
}

#[test]
fn containers_end_with_their_server_on_request_and_their_files_stay() {
    native::build_init();
    let above = tempfile::tempdir().unwrap();
    let home = above.path().join("home");
    let mut server = TestServer::start_at(BINARY, &home, podman::options());
    let session = podman::box_session(&server, json!({"resource_limits": {"disk": "128M"}}));
    server.tool(&session, "write", json!({"path": "a", "content": "valuable"}));
    podman::bash(&server, &session, "sleep 1000 > /dev/null 2>&1 & echo started");
    server.terminate();
    assert_eq!(mounted(&home).len(), 1, "the control: the container outlives its server");
    assert_eq!(stop(&home, &["--boxes"])["boxes_ended"], 1);
    assert_eq!(mounted(&home), Vec::<String>::new());
    server.start_again();
    assert_eq!(read(&server, &session, "a"), "valuable");
    assert_eq!(podman::bash(&server, &session, "pgrep -c sleep; true")["stdout"], "0\n");
}
