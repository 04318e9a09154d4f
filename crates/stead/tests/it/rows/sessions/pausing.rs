//! Pausing and resuming sessions.

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

use crate::rows::boxes::execs::begin;
use crate::rows::boxes::podman;
use crate::rows::{Files, events, on_all, on_boxes, put, server_with, writer};

fn at(session: &Value, rest: &str) -> String {
    format!("/sessions/{}{rest}", session["id"].as_str().unwrap())
}

fn pause(server: &TestServer, session: &Value, mode: &str) -> Value {
    server.client().post(&at(session, "/pause"), json!({"mode": mode})).expect(200)
}

fn resume(server: &TestServer, session: &Value) -> Value {
    server.client().post(&at(session, "/resume"), json!({})).expect(200)
}

/// The control groups or the containers of a session's box.
fn parts(session: &Value, files: Files) -> Vec<String> {
    if files == Files::Container {
        return podman::containers_of(session);
    }
    let workspace = session["workspace"]["id"].as_str().unwrap();
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten();
    let groups = hierarchies.flat_map(|hierarchy| std::fs::read_dir(hierarchy.path()).into_iter().flatten().flatten());
    let names = groups.map(|group| group.path().display().to_string());
    names.filter(|name| name.ends_with(workspace)).collect()
}

fn a_stopped_session_keeps_its_files(files: Files) {
    let mut server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "kept.txt", b"before\n");
    let snapshot = server.client().post(&at(&session, "/snapshots"), json!({})).expect(201);
    let paused = server.client().post(&at(&session, "/pause"), json!({})).expect(200);
    let statuses = (&paused["status"], &paused["workspace"]["status"]);
    assert_eq!(statuses, (&json!("paused"), &json!("paused")), "{paused}");
    // Idempotent.
    assert_eq!(pause(&server, &session, "stop")["seq"], paused["seq"]);
    let refused = server.client().post(&at(&session, "/tools/read"), json!({"path": "kept.txt"}));
    refused.problem(409, "session_not_active");
    assert!(refused.json()["hint"].as_str().unwrap().contains("/resume"), "{}", refused.text);
    server.client().get(&at(&session, "/files/kept.txt")).problem(409, "session_not_active");
    server.client().post(&at(&session, "/snapshots"), json!({})).problem(409, "session_not_active");
    server.client().post(&at(&session, "/clone"), json!({"isolation": "none"})).problem(409, "session_not_active");
    assert_eq!(server.client().get("/sessions?status=paused").expect(200)["items"][0]["id"], session["id"]);
    for restarted in [false, true] {
        if restarted {
            server.restart(None);
            let after = server.client().get(&at(&session, "")).expect(200);
            assert_eq!(after["status"], "paused", "{after}");
        }
        assert_eq!(parts(&session, files), Vec::<String>::new(), "no box is left");
    }
    let resumed = resume(&server, &session);
    assert_eq!((&resumed["status"], &resumed["workspace"]["status"]), (&json!("active"), &json!("ready")));
    assert_eq!(resume(&server, &session)["seq"], resumed["seq"]);
    let read = server.tool(&session, "read", json!({"path": "kept.txt"}));
    assert_eq!(read["result"]["content"], "before\n", "{read}");
    server.tool(&session, "write", json!({"path": "after.txt", "content": "after\n"}));
    let diff = server.client().get(&at(&session, "/diff")).expect(200);
    assert!(diff.to_string().contains("kept.txt") && diff.to_string().contains("after.txt"), "{diff}");
    let restore = format!("/snapshots/{}/restore", snapshot["id"].as_str().unwrap());
    server.client().post(&at(&session, &restore), json!({})).expect(200);
    server.client().get(&at(&session, "/files/after.txt")).problem(404, "not_found");
    let replay = server.client().get(&at(&session, "/replay")).expect(200);
    assert_eq!(replay["identical"], true, "{replay}");
    // Closing a paused session leaves nothing behind.
    pause(&server, &session, "stop");
    server.client().delete(&at(&session, "")).expect(204);
    assert_eq!(parts(&session, files), Vec::<String>::new());
    server.client().post(&at(&session, "/resume"), json!({})).problem(409, "session_not_active");
    server.client().post(&at(&session, "/pause"), json!({})).problem(409, "session_not_active");
}

on_all!(a_stopped_session_keeps_its_files);

mod commands {
    use super::*;

    /// The commands of a stopped box end with a reason.
    fn a_stop_ends_commands(files: Files) {
        let server = files.server();
        let session = writer(&server, files);
        let exec = begin(&server, &session, "sleep 300");
        pause(&server, &session, "stop");
        let ended = server.client().get(&at(&session, &format!("/execs/{exec}"))).expect(200);
        assert_eq!(ended["status"], "interrupted", "{ended}");
        let interrupted = events(&server, session["id"].as_str().unwrap(), "ExecInterrupted");
        assert_eq!(interrupted[0]["reason"], "the session was paused", "{interrupted:?}");
        server.client().get(&at(&session, &format!("/execs/{exec}/output"))).expect(200);
        let refused = server.client().post(&at(&session, "/execs"), json!({"command": "true"}));
        refused.problem(409, "session_not_active");
        resume(&server, &session);
        let processes = server.tool(&session, "bash", json!({"command": "ps -eo args | grep -c '[s]leep 300'"}));
        assert_eq!(processes["result"]["stdout"], "0\n", "{processes}");
    }

    /// The box of a clone may have the volume of its source mounted.
    fn the_source_of_a_running_clone_pauses(files: Files) {
        let server = files.server();
        let session = writer(&server, files);
        put(&server, &session, "f", b"1");
        let clones = server.client().post(&at(&session, "/clone?wait=60"), json!({"isolation": "full"})).expect(201);
        let clone = &clones["items"][0];
        put(&server, clone, "g", b"2");
        pause(&server, &session, "stop");
        let read = |of: &Value, name: &str| server.client().get(&at(of, &format!("/files/{name}"))).text;
        assert_eq!((read(clone, "f").as_str(), read(clone, "g").as_str()), ("1", "2"));
        resume(&server, &session);
        assert_eq!(read(&session, "f"), "1");
    }

    /// A frozen process does not run, and goes on after the resume, also of another server.
    fn a_freeze_keeps_processes(files: Files) {
        let mut server = files.server();
        let session = writer(&server, files);
        let exec = begin(&server, &session, "i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.02; done");
        until("the first count", || (server.client().get(&at(&session, "/files/count")).status == 200).then_some(()));
        let paused = pause(&server, &session, "freeze");
        assert_eq!((&paused["status"], &paused["workspace"]["status"]), (&json!("paused"), &json!("paused")));
        assert!(!parts(&session, files).is_empty(), "the box exists");
        let frozen = server.client().get(&at(&session, &format!("/execs/{exec}"))).expect(200);
        assert_eq!(frozen["status"], "running", "{frozen}");
        server.client().get(&at(&session, &format!("/execs/{exec}/output"))).expect(200);
        server.client().get(&at(&session, "/files/count")).problem(409, "session_not_active");
        resume(&server, &session);
        let count = || -> u64 {
            let text = server.client().get(&at(&session, "/files/count")).text;
            text.trim().parse().unwrap_or(0)
        };
        let before = count();
        until("the process to go on", || (count() > before + 5).then_some(()));
        // The same after the server was killed.
        pause(&server, &session, "freeze");
        server.restart(None);
        let after = server.client().get(&at(&session, "")).expect(200);
        assert_eq!(after["status"], "paused", "{after}");
        resume(&server, &session);
        let read = |server: &TestServer| -> u64 {
            server.client().get(&at(&session, "/files/count")).text.trim().parse().unwrap_or(0)
        };
        let before = read(&server);
        until("the process to go on", || (read(&server) > before + 5).then_some(()));
        let running = server.client().get(&at(&session, &format!("/execs/{exec}"))).expect(200);
        assert_eq!(running["status"], "running", "{running}");
        // A frozen session is closed without a trace.
        pause(&server, &session, "freeze");
        server.client().delete(&at(&session, "")).expect(204);
        assert_eq!(parts(&session, files), Vec::<String>::new());
    }

    on_boxes!(a_stop_ends_commands, a_freeze_keeps_processes, the_source_of_a_running_clone_pauses);
}

#[test]
fn memory_cannot_be_frozen() {
    let server = Files::Memory.server();
    let session = writer(&server, Files::Memory);
    let refused = server.client().post(&at(&session, "/pause"), json!({"mode": "freeze"}));
    let detail = refused.problem(422, "semantic_mismatch");
    assert!(detail.contains("memory") && detail.contains("stop"), "{detail}");
    server.client().post(&at(&session, "/pause"), json!({"mode": "sleep"})).problem(400, "invalid_request");
    assert_eq!(server.client().get(&at(&session, "")).expect(200)["status"], "active");
}

#[test]
fn a_shared_workspace_is_not_paused() {
    let server = Files::Memory.server();
    let session = writer(&server, Files::Memory);
    server.client().post(&at(&session, "/clone?wait=30"), json!({"isolation": "none"})).expect(201);
    server.client().post(&at(&session, "/pause"), json!({})).problem(422, "semantic_mismatch");
}

#[test]
fn a_stopped_session_gives_its_place_back() {
    let server = server_with(ServerOptions::default().env("WORKSPACE_MAX_CONCURRENT", "1"));
    let session = writer(&server, Files::Memory);
    server.client().post("/sessions", json!({"agent_type": "w"})).problem(429, "capacity");
    pause(&server, &session, "stop");
    let other = server.session(json!({"agent_type": "w"}));
    server.client().post(&at(&session, "/resume"), json!({})).problem(429, "capacity");
    assert_eq!(server.client().get(&at(&session, "")).expect(200)["status"], "paused");
    server.client().delete(&at(&other, "")).expect(204);
    assert_eq!(resume(&server, &session)["status"], "active");
}

#[test]
fn a_pause_continues_after_the_server_is_killed() {
    Files::Disk.provider();
    for (point, path) in [("pause=sleep(600000)", "/pause"), ("resume=sleep(600000)", "/resume")] {
        let mut server = server_with(ServerOptions::default().failpoints(point));
        let session = writer(&server, Files::Disk);
        put(&server, &session, "kept.txt", b"before\n");
        if path == "/resume" {
            pause(&server, &session, "stop");
        }
        let client = server.client().clone();
        let (asked, wanted) = (at(&session, path), path);
        // The request is not answered, because the server is killed meanwhile.
        let asking = std::thread::spawn(move || {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client.post(&asked, json!({})).status));
        });
        let kind = if wanted == "/pause" { "PauseRequested" } else { "ResumeRequested" };
        let id = session["id"].as_str().unwrap();
        until("the request", || (!events(&server, id, kind).is_empty()).then_some(()));
        server.restart(None);
        asking.join().unwrap();
        let settled = server.client().get(&at(&session, "?wait=60")).expect(200);
        if wanted == "/pause" {
            assert_eq!(settled["workspace"]["status"], "paused", "{settled}");
            assert_eq!(parts(&session, Files::Disk), Vec::<String>::new());
            resume(&server, &session);
        }
        let read = server.tool(&session, "read", json!({"path": "kept.txt"}));
        assert_eq!(read["result"]["content"], "before\n", "{read}");
    }
}

#[test]
fn the_idle_time_does_not_count_during_a_pause_and_the_end_does() {
    let directory = tempfile::tempdir().unwrap();
    let clock = directory.path().join("clock.json");
    let set = |millis: i64| {
        let new = clock.with_extension("new");
        std::fs::write(&new, json!({"wall_ms": millis, "boot_ms": millis}).to_string()).unwrap();
        std::fs::rename(new, &clock).unwrap();
    };
    set(0);
    let server = server_with(ServerOptions::default().env("STEAD_TEST_CLOCK", clock.to_str().unwrap()));
    server.agent_type("idle", json!({"enabled": true, "ttl_seconds": 7200, "idle_seconds": 600}));
    let [paused, awake] = [(); 2].map(|()| server.session(json!({"agent_type": "idle"})));
    pause(&server, &paused, "stop");
    set(30 * 60_000);
    let closed = |session: &Value| {
        until("the end of the session", || {
            let session = server.client().get(&at(session, "")).expect(200);
            (session["status"] == "closed").then(|| session["close_reason"].clone())
        })
    };
    assert_eq!(closed(&awake), "idle");
    assert_eq!(server.client().get(&at(&paused, "")).expect(200)["status"], "paused");
    // The idle time begins again with the resume.
    assert_eq!(resume(&server, &paused)["status"], "active");
    pause(&server, &paused, "stop");
    set(3 * 3_600_000);
    assert_eq!(closed(&paused), "expired");
}
