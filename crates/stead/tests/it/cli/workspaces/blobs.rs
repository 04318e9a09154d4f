//! Blobs outside the database: `verify` reads them, `gc` removes unreferenced ones, and `/readyz`
//! reports a full disk.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use stead_testkit::{Client, until};

use crate::cli::kit::{self, run, stead};

/// Larger than the journal's inline limit, and not text.
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
    let answer = run(server.home(), &["verify"]).ok();
    assert!(answer.contains("and 1 blobs checked"), "{answer}");
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

/// A mount that is removed on drop.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn with(arguments: &[&str]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let done = Command::new("mount").args(arguments).arg(scratch.path()).status().unwrap();
        assert!(done.success(), "mount {arguments:?}: this test needs root");
        Self(scratch)
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
    let answer = run(evidence.0.path(), &["verify"]).ok();
    assert!(answer.starts_with("✓ 1 of 1 journals intact") && answer.contains("and 1 blobs checked\n"), "{answer}");
}

/// A server whose home is a small file system of its own.
struct OnDisk {
    disk: Mounted,
    server: std::process::Child,
    client: Client,
}

impl OnDisk {
    fn start(size: &str) -> Self {
        let disk = Mounted::with(&["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "stead-test"]);
        let home = disk.0.path();
        let server = stead(home)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("WORKSPACE_DEFAULT_PROVIDER", "memory")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let client = until("the server's address", || {
            let record: Value = serde_json::from_slice(&std::fs::read(home.join("server.json")).ok()?).ok()?;
            let token = std::fs::read_to_string(home.join("token")).ok()?.trim().to_owned();
            Some(Client::new(record["url"].as_str()?.trim_end_matches('/'), Some(token)))
        });
        let started = Self { disk, server, client };
        started.wait_for(200);
        started
    }

    fn home(&self) -> &std::path::Path {
        self.disk.0.path()
    }

    /// Fills the disk. The write is expected to fail.
    fn fill(&self) {
        let _ = std::fs::write(self.home().join("ballast"), vec![0; 32 << 20]);
        self.wait_for(503);
    }

    fn make_room(&self) {
        std::fs::remove_file(self.home().join("ballast")).unwrap();
        self.wait_for(200);
    }

    fn wait_for(&self, wanted: u16) {
        until(&format!("/readyz to answer {wanted}"), || {
            let reply = self.client.try_send("GET", "/readyz", &[], None);
            reply.is_ok_and(|reply| reply.status == wanted).then_some(())
        });
    }

    fn end(mut self) {
        kit::signal(&self.server, rustix::process::Signal::TERM);
        assert_eq!(kit::wait(&mut self.server), Some(0));
    }
}

#[test]
fn a_full_disk_is_not_ready_and_one_with_room_is_again() {
    let served = OnDisk::start("16m");
    served.fill();
    served.make_room();
    served.end();
}

#[test]
fn an_upload_to_a_full_disk_gets_an_error_and_leaves_nothing() {
    let served = OnDisk::start("24m");
    let client = &served.client;
    client.post("/agent-types", json!({"id": "m", "workspace": {"enabled": true}})).expect(201);
    let session = client.post("/sessions?wait=60", json!({"agent_type": "m"})).expect(201);
    let id = session["id"].as_str().unwrap().to_owned();
    let file = format!("/sessions/{id}/files/large.bin");
    // Larger than all buffers together, so the answer arrives while the body is still being sent.
    let large = vec![7; 48 << 20];
    let before = client.send("GET", &format!("/sessions/{id}/state"), &[], None).expect(200)["seq"].clone();
    for (method, path) in
        [("PUT", file.as_str()), ("POST", "/blobs"), ("PUT", &format!("/sessions/{id}/files/d?format=tar"))]
    {
        let reply = client.bytes(method, path, &[], &large).reply();
        let detail = reply.problem(507, "insufficient_storage");
        assert!(detail.contains("disk") && !reply.json()["hint"].is_null(), "{path}: {}", reply.text);
    }
    let drafts: Vec<_> =
        std::fs::read_dir(served.home().join("blobs/tmp")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(drafts, [".lock"], "nothing half is left");
    let after = client.send("GET", &format!("/sessions/{id}/state"), &[], None).expect(200)["seq"].clone();
    assert_eq!(before, after, "nothing was recorded");
    client.send("GET", &file, &[], None).problem(404, "not_found");
    // On the command line: one sentence with the reason and what to do.
    let local = tempfile::tempdir().unwrap();
    std::fs::write(local.path().join("large.bin"), &large).unwrap();
    let copied =
        run(served.home(), &["cp", local.path().join("large.bin").to_str().unwrap(), &format!("{id}:large.bin")]);
    assert_eq!(copied.code, Some(1), "{}", copied.err);
    assert!(copied.err.contains("disk") && copied.err.contains("stead gc"), "{}", copied.err);
    // A request that the disk cannot even record is refused with the same error.
    served.fill();
    let refused = client.post("/agent-types", json!({"id": "n", "description": "x".repeat(1000)}));
    refused.problem(507, "insufficient_storage");
    served.make_room();
    client.bytes("PUT", &file, &[], &large[..4 << 20]).expect(201);
    served.end();
}
