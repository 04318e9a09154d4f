//! The bytes beside the database: `verify` reads them, `gc` removes what nothing refers to, `/readyz` knows whether there is room.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use stead_testkit::Client;

use super::kit::{self, run, stead};

/// More than the journal keeps inline, and no text.
const BINARY: &[u8] = &[0xff; 100_000];

fn blob_files(home: &Path) -> Vec<PathBuf> {
    let shelves = std::fs::read_dir(home.join("blobs/sha256")).unwrap();
    let files = shelves.flat_map(|shelf| std::fs::read_dir(shelf.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn garbage_goes_and_what_a_session_holds_stays() {
    let mut server = kit::server();
    let id = kit::session(&server);
    let file = format!("/sessions/{id}/files/b.bin");
    server.client().bytes("PUT", &file, &[], BINARY).reply();
    let orphan = server.home().join("orphan.bin");
    std::fs::write(&orphan, [0xfe; 70_000]).unwrap();
    run(server.home(), &["blob", "put", orphan.to_str().unwrap()]).ok();
    assert_eq!(blob_files(server.home()).len(), 2);

    let refused = run(server.home(), &["gc", "--grace", "0"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("already runs on the home"), "{}", refused.err);
    server.terminate();
    let young = run(server.home(), &["gc", "--json"]).json();
    assert_eq!(young["blobs"].as_array().unwrap().len(), 0, "{young}");
    let dry = run(server.home(), &["gc", "--grace", "0", "--dry-run", "--json"]).json();
    assert_eq!((&dry["removed"], &dry["bytes"]), (&Value::Bool(false), &70_000.into()), "{dry}");
    assert_eq!(blob_files(server.home()).len(), 2);
    let removed = run(server.home(), &["gc", "--grace", "0"]).ok();
    assert!(removed.contains("✓ 1 blob removed, 70000 bytes\n"), "{removed}");
    assert_eq!(blob_files(server.home()).len(), 1);

    server.restart(None);
    let read = server.client().bytes("GET", &file, &[], &[]).bytes;
    assert!(read == BINARY, "the session's file is as it was");
}

#[test]
fn damaged_and_missing_bytes_are_found() {
    let mut server = kit::server();
    let id = kit::session(&server);
    server.client().bytes("PUT", &format!("/sessions/{id}/files/b.bin"), &[], BINARY).reply();
    server.terminate();
    let told = run(server.home(), &["verify"]).ok();
    assert!(told.contains("and 1 blobs checked"), "{told}");
    let blob = blob_files(server.home()).pop().unwrap();
    std::fs::write(&blob, b"other bytes").unwrap();
    let damaged = run(server.home(), &["verify", &id]);
    assert_eq!(damaged.code, Some(1));
    assert!(damaged.err.contains("is damaged") && damaged.err.contains(&id), "{}", damaged.err);
    std::fs::remove_file(&blob).unwrap();
    let missing = run(server.home(), &["verify", "--json"]);
    let value: Value = serde_json::from_str(&missing.out).unwrap();
    assert_eq!((missing.code, &value["damaged_blobs"][0]["missing"]), (Some(1), &Value::Bool(true)), "{value}");
    server.broken_on_purpose();
}

/// A mount that goes with its owner.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn with(arguments: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let done = Command::new("mount").args(arguments).arg(place.path()).status().unwrap();
        assert!(done.success(), "mount {arguments:?}: this test needs root");
        Self(place)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_home_on_a_disk_that_cannot_be_written_is_verified() {
    let mut server = kit::server();
    let id = kit::session(&server);
    server.client().bytes("PUT", &format!("/sessions/{id}/files/b.bin"), &[], BINARY).reply();
    server.terminate();
    let evidence = Mounted::with(&["--bind", "-o", "ro", server.home().to_str().unwrap()]);
    let told = run(evidence.0.path(), &["verify"]).ok();
    assert!(told.starts_with("✓ 1 of 1 journals intact") && told.ends_with("and 1 blobs checked\n"), "{told}");
}

#[test]
fn a_full_disk_is_not_ready_and_one_with_room_is_again() {
    let disk = Mounted::with(&["-t", "tmpfs", "-o", "size=16m,mode=700", "stead-test"]);
    let home = disk.0.path();
    let mut server = stead(home)
        .args(["serve", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let client = loop {
        let record = std::fs::read(home.join("server.json")).unwrap_or_default();
        if let Some(url) =
            serde_json::from_slice::<Value>(&record).ok().and_then(|record| Some(record["url"].as_str()?.to_owned()))
        {
            break Client::new(url.trim_end_matches('/'), None);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    let ready = || client.try_send("GET", "/readyz", &[], None).map_or(0, |reply| reply.status);
    let wait_for = |wanted: u16| {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while ready() != wanted {
            assert!(std::time::Instant::now() < deadline, "/readyz answers {} and not {wanted}", ready());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    wait_for(200);
    let ballast = home.join("ballast");
    // As much as goes; the write that fails is the point.
    let _ = std::fs::write(&ballast, vec![0; 32 << 20]);
    wait_for(503);
    std::fs::remove_file(&ballast).unwrap();
    wait_for(200);
    kit::signal(&server, rustix::process::Signal::TERM);
    assert_eq!(kit::wait(&mut server), Some(0));
}
