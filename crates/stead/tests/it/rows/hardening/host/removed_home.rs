//! Removing a home ends its boxes: no process, cgroup, mount or device stays.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use crate::rows::boxes::native::{self, bash, box_session};
use crate::rows::boxes::podman;

/// The init process and the cgroups of a native box, from its record.
struct OnHost {
    pid: i64,
    cgroups: Vec<PathBuf>,
}

impl OnHost {
    fn of(home: &Path, session: &Value) -> Self {
        let workspace = session["workspace"]["id"].as_str().unwrap();
        let record = std::fs::read(home.join("boxes").join(workspace).join("box.json")).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        let cgroups = record["cgroups"].as_array().unwrap().iter().map(|path| path.as_str().unwrap().into()).collect();
        Self { pid: record["init"]["pid"].as_i64().unwrap(), cgroups }
    }

    fn process_runs(&self) -> bool {
        Path::new(&format!("/proc/{}", self.pid)).exists()
    }

    fn left(&self, home: &Path) -> Vec<String> {
        let process = self.process_runs().then(|| format!("process {}", self.pid));
        let groups = self.cgroups.iter().filter(|group| group.exists()).map(|group| group.display().to_string());
        process.into_iter().chain(groups).chain(devices(home)).collect()
    }

    fn expect_gone(&self, home: &Path) {
        until("the end of everything of the box", || self.left(home).is_empty().then_some(()));
    }
}

/// Loop devices whose backing files are, or were, below a directory.
pub(super) fn devices(home: &Path) -> Vec<String> {
    let home = home.to_str().unwrap().to_owned();
    let devices = std::fs::read_dir("/sys/block").unwrap().flatten();
    let backing = devices.filter_map(|device| std::fs::read_to_string(device.path().join("loop/backing_file")).ok());
    backing.filter(|file| file.contains(&home)).collect()
}

fn start(home: &Path) -> TestServer {
    native::build_init();
    TestServer::start_at(env!("CARGO_BIN_EXE_stead"), home, ServerOptions::default())
}

const LIMITS: &str = r#"{"cpu": "1", "memory": "256M", "disk": "64M", "pids": 64}"#;

fn box_at_work(server: &TestServer) -> Value {
    let limits: Value = serde_json::from_str(LIMITS).unwrap();
    let session = box_session(server, json!({"resource_limits": limits}));
    bash(server, &session, "sleep 1000 > /dev/null 2>&1 & echo started");
    session
}

#[test]
fn boxes_end_when_their_home_is_removed_while_the_server_is_down() {
    let above = tempfile::tempdir().unwrap();
    let home = above.path().join("home");
    let mut server = start(&home);
    let session = box_at_work(&server);
    let on_host = OnHost::of(&home, &session);
    server.kill();
    // The control: if only the server ends, the box keeps running and is found again.
    server.start_again();
    assert_eq!(bash(&server, &session, "pgrep -c sleep")["stdout"], "1\n");
    assert!(on_host.process_runs(), "the box did not outlive the server");
    server.kill();
    std::fs::remove_dir_all(&home).unwrap();
    on_host.expect_gone(&home);
}

#[test]
fn a_server_whose_home_is_removed_stops_and_its_boxes_end() {
    let above = tempfile::tempdir().unwrap();
    let home = above.path().join("home");
    let mut server = start(&home);
    let session = box_at_work(&server);
    let on_host = OnHost::of(&home, &session);
    std::fs::remove_dir_all(&home).unwrap();
    let status = server.wait_for_exit();
    assert!(!status.success(), "a server that lost its home says so: {status}");
    on_host.expect_gone(&home);
}

#[test]
fn a_home_that_is_moved_while_the_server_is_down_keeps_its_boxes() {
    let above = tempfile::tempdir().unwrap();
    let mut server = start(&above.path().join("home"));
    let session = box_at_work(&server);
    let on_host = OnHost::of(server.home(), &session);
    server.kill();
    server.start_moved(&above.path().join("moved"));
    assert_eq!(bash(&server, &session, "pgrep -c sleep")["stdout"], "1\n");
    assert!(on_host.process_runs(), "the box did not outlive the move");
}

#[test]
fn containers_end_when_their_home_is_removed() {
    let above = tempfile::tempdir().unwrap();
    let home = above.path().join("home");
    native::build_init();
    let mut server = TestServer::start_at(env!("CARGO_BIN_EXE_stead"), &home, podman::options());
    let session = podman::box_session(&server, json!({}));
    podman::bash(&server, &session, "sleep 1000 > /dev/null 2>&1 & echo started");
    let workspace = session["workspace"]["id"].as_str().unwrap();
    let record = std::fs::read(home.join("podman/boxes").join(workspace).join("podman.json")).unwrap();
    let pid = serde_json::from_slice::<Value>(&record).unwrap()["mark"]["pid"].as_i64().unwrap();
    let runs = || Path::new(&format!("/proc/{pid}")).exists();
    server.kill();
    assert!(runs(), "the container did not outlive the server");
    std::fs::remove_dir_all(&home).unwrap();
    until("the end of the container's first process", || (!runs()).then_some(()));
    until("the device of the container's volume to be free", || devices(&home).is_empty().then_some(()));
    // Podman still lists the ended container, which this test owns.
    for container in podman::containers_of(&session) {
        stead_testkit::podman::shared().run(&["rm", "--force", &container]);
    }
}
