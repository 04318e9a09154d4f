//! A copied home leaves the original's boxes alone, says so, and uses its own copies of the files.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer};

use crate::rows::boxes::{native, podman};
use crate::rows::put;

struct Homes {
    above: tempfile::TempDir,
}

impl Homes {
    fn new() -> Self {
        native::build_init();
        Self { above: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.above.path().join(name)
    }

    fn copy(&self, from: &str, to: &str) {
        // The server is running. If `ledger.head` were copied after the database, it could name a
        // seal that the copied database lacks.
        let noted = std::fs::read(self.path(from).join("ledger.head")).ok();
        // The exit code of `cp` is ignored: it may fail on a socket, or on a file that is removed
        // meanwhile.
        let copied = Command::new("cp").arg("-a").args([self.path(from), self.path(to)]).output().unwrap();
        assert!(self.path(to).join("stead.db").exists(), "{}", String::from_utf8_lossy(&copied.stderr));
        let note = self.path(to).join("ledger.head");
        match noted {
            Some(noted) => std::fs::write(note, noted).unwrap(),
            None => drop(std::fs::remove_file(note)),
        }
    }

    fn start(&self, name: &str, options: ServerOptions) -> TestServer {
        TestServer::start_at(env!("CARGO_BIN_EXE_stead"), &self.path(name), options)
    }
}

fn content(server: &TestServer, session: &Value, path: &str) -> String {
    let path = format!("/sessions/{}/files/{path}", session["id"].as_str().unwrap());
    String::from_utf8(server.client().bytes("GET", &path, &[], b"").expect(200)).unwrap()
}

fn pid(home: &Path, session: &Value) -> i64 {
    let workspace = session["workspace"]["id"].as_str().unwrap();
    let record = std::fs::read(home.join("boxes").join(workspace).join("box.json")).unwrap();
    serde_json::from_slice::<Value>(&record).unwrap()["init"]["pid"].as_i64().unwrap()
}

const UNCLAIMED: &str = "left alone: it belongs to the home this one was copied from";

#[test]
fn a_copied_home_leaves_native_boxes_alone_and_works_on_its_own_files() {
    let homes = Homes::new();
    let mut original = homes.start("original", ServerOptions::default());
    let session = native::box_session(&original, json!({"resource_limits": {"disk": "128M"}}));
    original.tool(&session, "write", json!({"path": "a", "content": "before the copy"}));
    native::bash(&original, &session, "sleep 1000 > /dev/null 2>&1 & echo started");
    let first = pid(original.home(), &session);
    homes.copy("original", "copy");
    put(&original, &session, "a", b"after the copy");

    let copy = homes.start("copy", ServerOptions::default());
    let log = copy.log();
    assert!(log.contains(UNCLAIMED) && log.contains(&format!("process {first}")), "{log}");
    assert_eq!(content(&copy, &session, "a"), "before the copy");
    put(&copy, &session, "a", b"of the copy");
    assert_eq!(content(&copy, &session, "a"), "of the copy");
    let closed = copy.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap()));
    assert_eq!(closed.status, 204, "{}", closed.text);
    drop(copy);

    // The original is unaffected: the same init process, the same command, the same files.
    assert_eq!(pid(original.home(), &session), first);
    assert_eq!(native::bash(&original, &session, "pgrep -c sleep; cat a")["stdout"], "1\nafter the copy");

    // The same holds while the original's server is down.
    original.kill();
    homes.copy("original", "second");
    let second = homes.start("second", ServerOptions::default());
    assert!(second.log().contains(&format!("process {first}")), "{}", second.log());
    assert_eq!(content(&second, &session, "a"), "after the copy");
    drop(second);
    original.start_again();
    assert_eq!(native::bash(&original, &session, "pgrep -c sleep; cat a")["stdout"], "1\nafter the copy");
    // The control: a home that is not a copy claims its boxes and reports none.
    assert!(!original.log().contains(UNCLAIMED), "{}", original.log());
    assert_eq!(pid(original.home(), &session), first);
}

#[test]
fn a_home_restored_from_a_backup_adopts_the_files() {
    let homes = Homes::new();
    let mut original = homes.start("original", ServerOptions::default());
    let session = native::box_session(&original, json!({"resource_limits": {"disk": "128M"}}));
    original.tool(&session, "write", json!({"path": "a", "content": "kept"}));
    original.kill();
    homes.copy("original", "backup");
    std::fs::remove_dir_all(homes.path("original")).unwrap();
    homes.copy("backup", "original");
    original.start_again();
    let found = original.client().get(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(200);
    assert_eq!((&found["status"], &found["workspace"]["status"]), (&json!("active"), &json!("ready")), "{found}");
    assert_eq!(content(&original, &session, "a"), "kept");
}

#[test]
fn a_copied_home_leaves_containers_alone() {
    let homes = Homes::new();
    let original = homes.start("original", podman::options());
    let session = podman::box_session(&original, json!({"resource_limits": {"disk": "128M"}}));
    original.tool(&session, "write", json!({"path": "a", "content": "before the copy"}));
    podman::bash(&original, &session, "sleep 1000 > /dev/null 2>&1 & echo started");
    let before = podman::containers_of(&session);
    homes.copy("original", "copy");

    let copy = homes.start("copy", podman::options());
    assert!(copy.log().contains(UNCLAIMED) && copy.log().contains(&before[0]), "{}", copy.log());
    assert_eq!(content(&copy, &session, "a"), "before the copy");
    assert_eq!(podman::containers_of(&session).len(), 2, "the copy has a container of its own");
    drop(copy);

    assert_eq!(podman::containers_of(&session), before);
    assert_eq!(podman::bash(&original, &session, "pgrep -c sleep; cat a")["stdout"], "1\nbefore the copy");
}
