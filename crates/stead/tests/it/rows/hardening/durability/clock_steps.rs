//! A session's age is measured by the boot clock: setting the wall clock neither closes a session
//! nor keeps one open.

use std::path::PathBuf;

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use crate::rows::{server_with, settled};

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;

/// A server whose clocks the test sets.
struct Clocked {
    server: TestServer,
    file: PathBuf,
    /// Keeps the file's directory alive.
    _directory: tempfile::TempDir,
}

impl Clocked {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("clock.json");
        set(&file, &json!({}));
        let options = ServerOptions::default().env("STEAD_TEST_CLOCK", file.to_str().unwrap());
        let clocked = Self { server: server_with(options), file, _directory: directory };
        clocked.server.agent_type("idle", json!({"enabled": true, "ttl_seconds": 100_000, "idle_seconds": 600}));
        clocked.server.agent_type("ttl", json!({"enabled": true, "ttl_seconds": 600, "idle_seconds": 100_000}));
        clocked.server.agent_type("look", json!({"enabled": true, "ttl_seconds": 60, "idle_seconds": 100_000}));
        clocked
    }

    fn set(&self, clock: &Value) {
        set(&self.file, clock);
    }

    fn session(&self, agent_type: &str) -> String {
        let session = self.server.session(json!({"agent_type": agent_type}));
        assert_eq!(session["status"], "active", "{session}");
        self.server.tool(&session, "write", json!({"path": "a", "content": "kept\n"}));
        session["id"].as_str().unwrap().to_owned()
    }

    /// Waits until the server has checked for due sessions after the clock was set: it closes a
    /// short-lived one.
    fn wait_for_a_look(&self, clock: &Value) {
        let session = self.server.session(json!({"agent_type": "look"}));
        let boot = clock["boot_ms"].as_i64().unwrap_or(0);
        let mut later = clock.clone();
        later["boot_ms"] = json!(boot + 2 * MINUTE);
        self.set(&later);
        self.expect_closed(session["id"].as_str().unwrap(), "expired");
        self.set(clock);
    }

    fn expect_active(&self, sessions: &[String]) {
        for id in sessions {
            let session = self.server.client().get(&format!("/sessions/{id}")).expect(200);
            assert_eq!(session["status"], "active", "{session}");
            let file = self.server.client().bytes("GET", &format!("/sessions/{id}/files/a"), &[], b"").expect(200);
            assert_eq!(file, b"kept\n");
        }
    }

    fn expect_closed(&self, id: &str, reason: &str) {
        let session = until("the close of a session whose time is over", || {
            let session = self.server.client().get(&format!("/sessions/{id}")).expect(200);
            (session["status"] == "closed").then_some(session)
        });
        assert_eq!(session["close_reason"], reason, "{session}");
    }
}

fn set(file: &std::path::Path, clock: &Value) {
    let new = file.with_extension("new");
    std::fs::write(&new, clock.to_string()).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// Waits until the server has logged this many wall clock steps.
fn noticed(clocked: &Clocked, steps: usize) {
    until("the server to notice that the wall clock was set", || {
        (clocked.server.log().matches("the wall clock was set").count() >= steps).then_some(())
    });
}

#[test]
fn a_wall_clock_that_is_set_closes_no_session_and_keeps_none_open() {
    let clocked = Clocked::start();
    let sessions = [clocked.session("idle"), clocked.session("ttl")];
    // One day ahead, past the year 2038, and one day back.
    for (steps, wall_ms) in [DAY, 20 * 365 * DAY, -DAY].into_iter().enumerate() {
        clocked.set(&json!({"wall_ms": wall_ms}));
        noticed(&clocked, steps + 1);
        clocked.expect_active(&sessions);
    }
    // The control: the same server closes both once that much time has passed, whatever the wall
    // clock says.
    clocked.set(&json!({"wall_ms": -DAY, "boot_ms": 11 * MINUTE}));
    clocked.expect_closed(&sessions[0], "idle");
    clocked.expect_closed(&sessions[1], "expired");
}

#[test]
fn a_wall_clock_that_stands_still_neither_hides_activity_nor_keeps_a_session_open() {
    let clocked = Clocked::start();
    let sessions = [clocked.session("idle"), clocked.session("idle")];
    let frozen = 1_800_000_000_000_i64;
    clocked.set(&json!({"frozen_at_ms": frozen}));
    clocked.server.tool(&json!({"id": sessions[0]}), "write", json!({"path": "b", "content": "at work"}));
    clocked.set(&json!({"frozen_at_ms": frozen, "boot_ms": 8 * MINUTE}));
    clocked.server.tool(&json!({"id": sessions[0]}), "write", json!({"path": "b", "content": "at work still"}));
    clocked.set(&json!({"frozen_at_ms": frozen, "boot_ms": 12 * MINUTE}));
    clocked.expect_closed(&sessions[1], "idle");
    clocked.expect_active(&sessions[..1]);
    clocked.set(&json!({"frozen_at_ms": frozen, "boot_ms": 19 * MINUTE}));
    clocked.expect_closed(&sessions[0], "idle");
}

#[test]
fn time_asleep_counts_as_time() {
    let clocked = Clocked::start();
    let session = clocked.session("ttl");
    // Both clocks advance while a machine sleeps.
    clocked.set(&json!({"wall_ms": 5 * MINUTE, "boot_ms": 5 * MINUTE}));
    clocked.wait_for_a_look(&json!({"wall_ms": 5 * MINUTE, "boot_ms": 5 * MINUTE}));
    clocked.expect_active(std::slice::from_ref(&session));
    clocked.set(&json!({"wall_ms": 11 * MINUTE, "boot_ms": 11 * MINUTE}));
    clocked.expect_closed(&session, "expired");
}

#[test]
fn a_clock_that_is_set_while_the_server_is_down_closes_no_session() {
    let mut clocked = Clocked::start();
    let sessions = [clocked.session("idle"), clocked.session("ttl")];
    clocked.server.kill();
    clocked.set(&json!({"wall_ms": DAY}));
    clocked.server.start_again();
    for id in &sessions {
        assert_eq!(settled(&clocked.server, id)["status"], "active");
    }
    noticed(&clocked, 1);
    clocked.expect_active(&sessions);

    // The control: time that passed on the boot clock while the server was down counts.
    clocked.server.kill();
    clocked.set(&json!({"wall_ms": DAY, "boot_ms": 11 * MINUTE}));
    clocked.server.start_again();
    clocked.expect_closed(&sessions[0], "idle");
    clocked.expect_closed(&sessions[1], "expired");
}

#[test]
fn after_a_reboot_the_wall_clock_is_believed_only_after_a_grace_period() {
    let mut clocked = Clocked::start();
    let sessions = [clocked.session("idle"), clocked.session("ttl")];
    clocked.server.kill();
    let rebooted = |wall_ms: i64, boot_ms: i64| json!({"wall_ms": wall_ms, "boot_ms": boot_ms, "boot_id": "another"});
    clocked.set(&rebooted(DAY, 0));
    clocked.server.start_again();
    // The grace period does not apply to a session of this run. When it closes, the others were
    // checked too.
    clocked.wait_for_a_look(&rebooted(DAY, 0));
    clocked.expect_active(&sessions);
    // The control: when the grace period is over, the age by the wall clock counts.
    clocked.set(&rebooted(DAY, 30 * MINUTE));
    clocked.expect_closed(&sessions[1], "expired");
    clocked.expect_closed(&sessions[0], "idle");
}
