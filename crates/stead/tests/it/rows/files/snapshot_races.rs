//! F10: calls that run at the same time as a snapshot, a restore or a checkpoint.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use stead_testkit::until;

use crate::rows::{Files, on_all, put};

/// A session that takes a checkpoint after every call.
fn keeper(server: &stead_testkit::TestServer, files: Files) -> Value {
    let points = if files == Files::Container { "copies" } else { "layers" };
    let workspace = json!({"enabled": true, "provider": files.provider(), "rewind": {"points": points}});
    server.agent_type("keeper", workspace);
    server.session(json!({"agent_type": "keeper"}))
}

fn f10_calls_during_snapshots_and_restores_are_answered(files: Files) {
    const ROUNDS: usize = 8;
    let server = files.server();
    let session = keeper(&server, files);
    put(&server, &session, "kept", b"x");
    let at = |below: &str| format!("/sessions/{}{below}", session["id"].as_str().unwrap());
    let over = AtomicBool::new(false);
    let (server, over) = (&server, &over);
    std::thread::scope(|scope| {
        let mut readers = Vec::new();
        for reader in 0..3 {
            let (file, listing, tool) = (at("/files/kept"), at("/files"), at("/tools/read"));
            let (diff, written) = (at("/diff"), at(&format!("/files/new-{reader}")));
            readers.push(scope.spawn(move || {
                let mut calls = 0;
                while !over.load(Ordering::Relaxed) {
                    let client = server.client();
                    let answers = [
                        client.get(&file),
                        client.get(&listing),
                        client.get(&diff),
                        client.bytes("PUT", &written, &[], b"y").reply(),
                        client.post(&tool, json!({"path": "kept"})),
                    ];
                    for answer in answers {
                        assert!([200, 201].contains(&answer.status), "{}: {}", answer.status, answer.text);
                        assert!(!answer.text.contains("\"ok\":false"), "{}", answer.text);
                        calls += 1;
                    }
                }
                calls
            }));
        }
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..ROUNDS {
                let snapshot = server.client().post(&at("/snapshots"), json!({})).expect(201);
                let restore = at(&format!("/snapshots/{}/restore", snapshot["id"].as_str().unwrap()));
                server.client().send("POST", &restore, &[], None).expect(200);
            }
        }));
        over.store(true, Ordering::Relaxed);
        ended.unwrap();
        let calls: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(calls > 0);
    });
}

fn f10_a_checkpoint_takes_no_answer_of_a_running_command(files: Files) {
    if files == Files::Memory {
        return;
    }
    let server = files.server();
    let session = keeper(&server, files);
    let command = "touch began; until [ -e go ]; do sleep 0.02; done; echo done";
    let server = &server;
    for tool in ["bash", "shell"] {
        let running = std::thread::scope(|scope| {
            let running = scope.spawn(|| server.tool(&session, tool, json!({"command": command})));
            until("the start of the command", || {
                (server.tool(&session, "stat", json!({"path": "began"}))["ok"] == true).then_some(())
            });
            // Each of these calls ends with a checkpoint.
            for number in 0..3 {
                let write = json!({"path": format!("{tool}-{number}"), "content": "x"});
                assert_eq!(server.tool(&session, "write", write)["ok"], true);
            }
            assert_eq!(server.tool(&session, "write", json!({"path": "go", "content": "go"}))["ok"], true);
            running.join().unwrap()
        });
        assert_eq!((&running["ok"], &running["result"]["stdout"]), (&json!(true), &json!("done\n")), "{running}");
        for path in ["go", "began"] {
            assert_eq!(server.tool(&session, "rm", json!({"path": path}))["ok"], true);
        }
    }
}

on_all!(f10_calls_during_snapshots_and_restores_are_answered, f10_a_checkpoint_takes_no_answer_of_a_running_command,);
