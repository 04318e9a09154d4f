//! A server that keeps working on a changed record does not make it valid.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use super::{assert_intact, blobs, tamper, verify};
use crate::rows::{server, server_with};

fn stead(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_stead")]).args(args).env("STEAD_HOME", home);
    command.env("WORKSPACE_DEFAULT_PROVIDER", "memory");
    command
}

fn run(home: &Path, args: &[&str]) -> Output {
    stead(home, args).output().unwrap()
}

fn put_database(home: &Path, copy: &[u8]) {
    for name in ["stead.db-wal", "stead.db-shm"] {
        assert!(!home.join(name).exists(), "the server did not stop in order");
    }
    std::fs::write(home.join("stead.db"), copy).unwrap();
}

fn memory_session(server: &TestServer) -> Value {
    let session = server.session(json!({"agent_type": "a"}));
    server.tool(&session, "write", json!({"path": "a.txt", "content": "x"}));
    session
}

#[test]
fn an_older_database_is_refused_until_the_operator_accepts_it_and_then_stays_known() {
    let mut server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    memory_session(&server);
    assert!(server.terminate().unwrap().success());
    let old = std::fs::read(server.home().join("stead.db")).unwrap();
    let old_head = assert_intact(server.home())["ledger"]["head"]["hash"].as_str().unwrap().to_owned();
    server.restart(None);
    memory_session(&server);
    assert!(server.terminate().unwrap().success());
    // Control: the newer database is intact, and has no accepted cut.
    assert_eq!(assert_intact(server.home())["ledger"]["accepted"], json!([]));
    server.broken_on_purpose();
    put_database(server.home(), &old);
    assert_eq!(verify(server.home(), &[]).0, Some(1));

    let listen = ["serve", "--listen", "127.0.0.1:0"];
    let other = format!("blake3:{}", "0".repeat(64));
    for args in [&listen[..], &[&listen[..], &["--accept-head", &other]].concat(), &["gc", "--grace", "0"]] {
        let refused = run(server.home(), args);
        let output = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {output}");
        assert!(output.contains("older copy") && output.contains(&format!("--accept-head {old_head}")), "{output}");
        assert_eq!(verify(server.home(), &[]).0, Some(1), "a refused start must not replace the note");
    }

    let accepting = [&listen[..], &["--accept-head", &old_head]].concat();
    let mut child = stead(server.home(), &accepting).stderr(Stdio::null()).spawn().unwrap();
    until("the server on the accepted database runs and stops", || {
        let stopped = run(server.home(), &["stop", "--json"]);
        let output: Value = serde_json::from_slice(&stopped.stdout).unwrap_or_default();
        (output["stopped"] == true).then_some(())
    });
    assert!(child.wait().unwrap().success());
    let known = assert_intact(server.home());
    assert_eq!(known["ledger"]["accepted"][0]["cut"]["last_hash"], json!(old_head), "{known}");

    // After the acceptance the server needs no flag, and the acceptance stays on record.
    server.restart(None);
    let audit = server.client().get("/audit?type=database_accepted").expect(200);
    assert!(audit.to_string().contains(&old_head), "{audit}");
    memory_session(&server);
    assert!(server.terminate().unwrap().success());
    assert_eq!(assert_intact(server.home())["ledger"]["accepted"], known["ledger"]["accepted"]);
}

#[test]
fn a_server_that_was_killed_starts_again_without_a_flag() {
    let mut server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    for _ in 0..4 {
        memory_session(&server);
        server.kill();
        server.restart(None);
    }
    assert!(server.terminate().unwrap().success());
    assert_intact(server.home());
}

#[test]
fn removed_references_are_found_and_restored_before_any_blob_is_removed() {
    let mut server = server_with(ServerOptions::default().env("STEAD_BLOB_GRACE_SECONDS", "1"));
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = server.session(json!({"agent_type": "a"}));
    let path = format!("/sessions/{}/files/b.bin", session["id"].as_str().unwrap());
    let bytes = vec![7; 300_000];
    assert_eq!(server.client().bytes("PUT", &path, &[], &bytes).status, 201);
    assert!(server.terminate().unwrap().success());
    let held = blobs(server.home());
    assert!(!held.is_empty());
    assert_intact(server.home());
    tamper(server.home(), "DELETE FROM blob_references").unwrap();
    let (code, output, _) = verify(server.home(), &[]);
    assert_eq!((code, &output["ledger"]["broken"][0]["table"]), (Some(1), &json!("blob_references")), "{output}");

    server.restart(None);
    // Control: the collector runs, and removes a blob that nothing names.
    assert!(server.client().bytes("POST", "/blobs", &[], &[8; 300_000]).status < 300);
    until("the collector removed the blob that nothing names", || (blobs(server.home()) == held).then_some(()));
    assert_eq!(server.client().bytes("GET", &path, &[], &[]).status, 200);
    assert!(server.terminate().unwrap().success());
    assert_intact(server.home());
}

#[test]
fn an_edited_time_of_creation_is_not_made_true_by_the_next_write() {
    let mut server = server();
    server.agent_type("a", json!({"enabled": true, "provider": "memory"}));
    let session = memory_session(&server);
    let path = format!("/sessions/{}", session["id"].as_str().unwrap());
    let created = |server: &TestServer| server.client().get(&path).expect(200)["created_at"].clone();
    let before = created(&server);
    assert!(before.is_string() || before.is_number(), "{before}");
    assert!(server.terminate().unwrap().success());
    tamper(server.home(), "UPDATE sessions SET created_at = created_at - 86400000").unwrap();
    // Control: the edit is a change that verification sees.
    assert_eq!(verify(server.home(), &[]).0, Some(1));
    server.restart(None);
    server.tool(&session, "write", json!({"path": "b.txt", "content": "x"}));
    assert!(server.terminate().unwrap().success());
    assert_intact(server.home());
    // The server restored the correct value, so setting it again changes nothing.
    let copied = super::copy(server.home());
    let sql = "UPDATE sessions SET created_at = (SELECT at FROM events WHERE session = sessions.id AND seq = 1)";
    tamper(copied.path(), sql).unwrap();
    assert_eq!(verify(copied.path(), &[]).0, Some(0), "the row does not have the time of its first event");
    server.restart(None);
    assert_eq!(created(&server), before);
}
