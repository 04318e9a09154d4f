//! An acknowledged change survives a power loss, on every provider.
//!
//! The whole home is on a filesystem in an image file. The test copies the image at each
//! acknowledgement. Bytes that the kernel has not written to the image yet are missing in the copy,
//! as they would be on a disk that lost power. A second server starts on each copy and must have
//! every acknowledged change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use crate::rows::boxes::podman;
use crate::rows::{Files, put};

/// `cargo xtask nightly` sets a larger number.
fn cuts(usual: usize) -> usize {
    std::env::var("STEAD_POWER_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn run(program: &str, args: &[&Path]) -> bool {
    Command::new(program).args(args).output().unwrap().status.success()
}

/// An ext4 image mounted at a directory of the test.
struct Disk {
    image: PathBuf,
    at: PathBuf,
}

impl Disk {
    fn format(image: PathBuf, at: &Path) -> Self {
        std::fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self::mount(image, at)
    }

    fn mount(image: PathBuf, at: &Path) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(["-o", "loop"]).args([&image, at]).output().unwrap();
        assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
        Self { image, at: at.to_owned() }
    }

    /// Returns the disk as a power loss would leave it now, mounted elsewhere.
    ///
    /// The server is stopped during the copy. Otherwise the copy could contain a later write
    /// without an earlier synced one, which never happens on a real disk.
    fn cut(&self, server: &TestServer, image: PathBuf, at: &Path) -> Self {
        let pid = Pid::from_raw(i32::try_from(server.pid().unwrap()).unwrap()).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        let copied = run("cp", &[Path::new("--sparse=always"), &self.image, &image]);
        kill_process(pid, Signal::CONT).unwrap();
        assert!(copied, "the image was not copied");
        Self::mount(image, at)
    }

    fn home(&self) -> PathBuf {
        self.at.join("home")
    }

    /// Unmounts the disk once it is unused.
    fn unmount(self) {
        until("the filesystem to be unused", || run("umount", &[&self.at]).then_some(()));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Only a failed test leaves the disk mounted.
        let _ = run("umount", &[Path::new("--lazy"), &self.at]);
        let _ = std::fs::remove_file(&self.image);
    }
}

fn path(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

fn tar(name: &str, text: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, name, text.as_bytes()).unwrap();
    tar.into_inner().unwrap()
}

/// The expected text of each file; `None` for a file that was removed.
type Acknowledged = BTreeMap<String, Option<String>>;

/// Makes one acknowledged change, of a different kind each time.
fn change(server: &TestServer, session: &Value, files: Files, number: usize, known: &mut Acknowledged) {
    let text = format!("text of change {number}\n");
    let last = known.iter().rev().find(|(_, text)| text.is_some()).map(|(name, _)| name.clone());
    let name = match (number % 7, last) {
        (1, _) => {
            let name = format!("put/{number}/deep/file");
            put(server, session, &format!("{name}?mkdir=1"), text.as_bytes());
            name
        }
        (4, Some(last)) => {
            let old = known[&last].clone().unwrap();
            let edited = server.tool(session, "edit", json!({"path": last, "old_string": old, "new_string": text}));
            assert_eq!(edited["ok"], true, "{edited}");
            last
        }
        (5, _) => {
            let into = path(session, &format!("/files/tar-{number}?format=tar"));
            server.client().bytes("PUT", &into, &[], &tar("inside", &text)).reply().expect(200);
            format!("tar-{number}/inside")
        }
        // After the snapshot the file is in a layer.
        (3, Some(last)) => {
            assert!([200, 204].contains(&server.client().delete(&path(session, &format!("/files/{last}"))).status));
            known.insert(last, None);
            return;
        }
        // A command's own writes are durable once a snapshot is acknowledged.
        (2, _) if files != Files::Memory => {
            let name = format!("command-{number}");
            let wrote =
                server.tool(session, "bash", json!({"command": format!("printf '{}' > {name}", text.trim_end())}));
            assert_eq!(wrote["ok"], true, "{wrote}");
            server.client().post(&path(session, "/snapshots"), json!({})).expect(201);
            known.insert(name, Some(text.trim_end().to_owned()));
            return;
        }
        _ => {
            let name = format!("write-{number}");
            let wrote = server.tool(session, "write", json!({"path": name, "content": text}));
            assert_eq!(wrote["ok"], true, "{wrote}");
            name
        }
    };
    known.insert(name, Some(text));
}

/// Starts a server after the power loss and expects every acknowledged change.
fn expect_everything(disk: &Disk, options: &ServerOptions, session: &Value, known: &Acknowledged) {
    let server = TestServer::start_at(env!("CARGO_BIN_EXE_stead"), &disk.home(), options.clone());
    let found = server.client().get(&path(session, "")).expect(200);
    assert_eq!((&found["status"], &found["workspace"]["status"]), (&json!("active"), &json!("ready")), "{found}");
    for (name, text) in known {
        let read = server.client().bytes("GET", &path(session, &format!("/files/{name}")), &[], b"");
        match text {
            None => assert_eq!(read.status, 404, "{name} is there again"),
            Some(text) => {
                let bytes = read.expect(200);
                assert_eq!(String::from_utf8_lossy(&bytes), *text, "{name}");
            }
        }
    }
}

fn what_was_acknowledged_survives(files: Files, disk_limit: &str, cuts: usize) {
    let directory = tempfile::tempdir().unwrap();
    let below = |name: &str| directory.path().join(name);
    let disk = Disk::format(below("live.img"), &below("live"));
    let options = match files {
        Files::Container => podman::options(),
        Files::Memory | Files::Disk => ServerOptions::default(),
    };
    let server = TestServer::start_at(env!("CARGO_BIN_EXE_stead"), &disk.home(), options.clone());
    let limits = json!({"cpu": "1", "memory": "256M", "disk": disk_limit, "pids": 64});
    let workspace = json!({"enabled": true, "provider": files.provider(), "require_workspace": true,
        "workspace_policy": "empty", "resource_limits": limits});
    server.agent_type("w", workspace);
    let session = server.session(json!({"agent_type": "w"}));
    assert_eq!(session["status"], "active", "{session}");
    let (mut known, mut lost) = (Acknowledged::new(), 0);
    for number in 0..cuts {
        change(&server, &session, files, number, &mut known);
        let control = format!("unsynced-{number}");
        std::fs::write(disk.at.join(&control), "nobody waited for the disk").unwrap();
        let cut = disk.cut(&server, below("cut.img"), &below("cut"));
        lost += usize::from(std::fs::read(cut.at.join(&control)).unwrap_or_default().is_empty());
        expect_everything(&cut, &options, &session, &known);
        cut.unmount();
    }
    // The control: unsynced writes are missing in the copies. Some may be saved by regular
    // writeback.
    assert!(lost * 2 > cuts, "{lost} of {cuts} unsynced files were lost: the copies show the page cache");
    drop(server);
    disk.unmount();
}

#[test]
fn native_files_survive_a_power_loss() {
    what_was_acknowledged_survives(Files::Disk, "128M", cuts(7));
}

#[test]
fn native_files_on_a_small_volume_survive_a_power_loss() {
    what_was_acknowledged_survives(Files::Disk, "32M", cuts(4));
}

#[test]
fn files_of_containers_survive_a_power_loss() {
    what_was_acknowledged_survives(Files::Container, "128M", cuts(4));
}

#[test]
fn files_in_memory_survive_a_power_loss() {
    what_was_acknowledged_survives(Files::Memory, "128M", cuts(4));
}
