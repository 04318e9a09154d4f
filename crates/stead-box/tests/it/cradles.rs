//! What is done ahead of a box: it becomes one, or nothing of it is left.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use stead_box::{Connection, Cradle, CradleSpec, OwnerRecord, RunningBox, connect, remove, resume_in};

use crate::home::{Home, chain, init};

fn spec(home: &Home, name: &str) -> CradleSpec {
    let directory = home.path().join("boxes").join(name);
    CradleSpec { id: name.to_owned(), instance: home.instance.clone(), directory }
}

fn cradle(home: &Home, name: &str) -> Cradle {
    Cradle::make(&init(), &spec(home, name)).unwrap_or_else(|error| panic!("{}", chain(&error)))
}

/// The control groups that are named in a directory.
fn groups(home: &Home, name: &str) -> Vec<PathBuf> {
    OwnerRecord::read(&spec(home, name).directory).unwrap().map(|record| record.cgroups).unwrap_or_default()
}

fn says(connection: &mut Connection, command: &str) -> String {
    let order = json!({"exec": "e", "argv": ["/bin/sh", "-c", command], "cwd": "/workspace", "env": {}, "input": "nothing",
        "timeout_ms": 10_000, "terminal": null, "output": {"kept_bytes": 1000, "ring_bytes": 0, "unread": "drop"}});
    let finished = connection.run(serde_json::from_value(order).unwrap(), &[]).unwrap();
    String::from_utf8(finished.stdout).unwrap()
}

fn start(home: &Home, cradle: Cradle) -> RunningBox {
    let spec = home.spec();
    std::fs::create_dir(&spec.directory).unwrap();
    resume_in(cradle, &init(), &spec).unwrap_or_else(|error| panic!("{}", chain(&error)))
}

fn end(home: &Home, running: &RunningBox) {
    remove(running.directory()).unwrap();
    let id = running.directory().file_name().unwrap().to_str().unwrap().to_owned();
    home.ranges().give_back(&id).unwrap();
}

/// The same box as without one: its limits hold, and its groups are its own.
pub(crate) fn a_cradle_becomes_a_box(home: &Home) {
    let named = {
        let cradle = cradle(home, "one");
        let named = groups(home, "one");
        let running = start(home, cradle);
        let plain = home.start();
        assert_eq!(running.held(), plain.running.held());
        assert_eq!(running.record().unwrap().cgroups, named);
        assert!(!spec(home, "one").directory.exists(), "the cradle's own record is gone");
        assert_eq!(says(&mut connect(running.directory()).unwrap(), "echo here; id -u"), "here\n1000\n");
        end(home, &running);
        named
    };
    assert!(named.iter().all(|group| !group.exists()), "{named:?}");
    home.assert_clean();
}

pub(crate) fn a_cradle_that_nobody_wants_leaves_nothing(home: &Home) {
    drop(cradle(home, "dropped"));
    home.assert_clean();
    // The same without the server: it is killed, and the cradle sees the end of its orders.
    let order = json!({"cradle": spec(home, "orphan")});
    std::fs::create_dir(spec(home, "orphan").directory).unwrap();
    let mut child = Command::new(init()).arg("launch").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.as_mut().unwrap(), "{order}").unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "\"waiting\"\n");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    home.assert_clean();
}

pub(crate) fn a_cradle_that_died_is_done_without(home: &Home) {
    let cradle = cradle(home, "dead");
    for group in groups(home, "dead") {
        for pid in std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().lines() {
            assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
        }
        let deadline = Instant::now() + Duration::from_secs(30);
        while !std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default().is_empty() {
            assert!(Instant::now() < deadline, "a killed cradle is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let running = start(home, cradle);
    assert_eq!(says(&mut connect(running.directory()).unwrap(), "echo here"), "here\n");
    end(home, &running);
    home.assert_clean();
}
