//! The disk limit of a session with in-memory files covers its files, its snapshots and its
//! journal.

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::server;

fn path(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

fn limited(server: &TestServer, disk: &str) -> Value {
    let name = format!("m{}", disk.to_lowercase());
    let limits = json!({"disk": disk});
    server.agent_type(&name, json!({"enabled": true, "provider": "memory", "resource_limits": limits}));
    server.session(json!({"agent_type": name}))
}

fn put(server: &TestServer, session: &Value, name: &str, byte: u8, bytes: usize) -> stead_testkit::Reply {
    server.client().bytes("PUT", &path(session, &format!("/files/{name}")), &[], &vec![byte; bytes]).reply()
}

/// Writes three files of 1 MiB each, which nearly fill a limit of 4 MB.
fn fill(server: &TestServer, session: &Value) {
    for name in ["a", "b", "c"] {
        put(server, session, name, 0xff, 1 << 20).expect(201);
    }
}

#[test]
fn files_in_memory_keep_to_the_disk_limit() {
    let server = server();
    let session = limited(&server, "4M");
    fill(&server, &session);
    let detail = put(&server, &session, "d", 0xff, 2 << 20).problem(409, "disk_limit");
    assert!(detail.contains("no space"), "{detail}");
    let text = "x".repeat(40_000);
    let answers: Vec<Value> = (0..40)
        .map(|number| server.tool(&session, "write", json!({"path": format!("t{number}"), "content": text})))
        .collect();
    let refused = answers.iter().find(|answer| answer["ok"] == false).expect("a write beyond the limit is refused");
    assert_eq!(refused["error"]["code"], "no_space", "{refused}");
    let read = server.client().bytes("GET", &path(&session, "/files/a"), &[], b"").expect(200);
    assert_eq!(read.len(), 1 << 20);
    assert_eq!(server.tool(&session, "rm", json!({"path": "a"}))["ok"], true);
    put(&server, &session, "e", 0xfe, 500_000).expect(201);

    // The control: a larger limit has room for all of it.
    let large = limited(&server, "64M");
    fill(&server, &large);
    put(&server, &large, "d", 0xff, 2 << 20).expect(201);
}

#[test]
fn snapshots_in_memory_keep_to_twice_the_disk_limit() {
    let server = server();
    let taken = |disk: &str| {
        let session = limited(&server, disk);
        let taken = (0..6u8).take_while(|number| {
            let written = put(&server, &session, "a", 0xf0 + number, 900_000);
            assert!([200, 201].contains(&written.status), "{}", written.text);
            let reply = server.client().post(&path(&session, "/snapshots"), json!({}));
            if reply.status != 201 {
                assert!(reply.problem(409, "disk_limit").contains("disk limit"));
            }
            reply.status == 201
        });
        (taken.count(), session)
    };
    let (few, session) = taken("1M");
    assert!((1..=2).contains(&few), "{few} snapshots");
    // The session still works.
    put(&server, &session, "a", 0xaa, 900_000).expect(200);
    assert_eq!(taken("64M").0, 6, "the control");
}

#[test]
fn a_journal_keeps_to_a_multiple_of_the_disk_limit() {
    let server = server();
    let session = limited(&server, "1M");
    // 64 MiB is the minimum size of a journal.
    let taken = (0..100u8).take_while(|number| {
        let mut bytes = vec![0xff; 900_000];
        bytes[0] = *number;
        let reply = server.client().bytes("PUT", &path(&session, "/files/a"), &[], &bytes).reply();
        if reply.status >= 400 {
            let detail = reply.problem(409, "journal_full");
            assert!(detail.contains("journal"), "{detail}");
        }
        reply.status < 400
    });
    let taken = taken.count();
    assert!((60..90).contains(&taken), "{taken} puts were recorded");
    let refused = server.client().post(&path(&session, "/tools/write"), json!({"path": "b", "content": "x"}));
    refused.problem(409, "journal_full");
    // Removing files still works, and so does another session.
    server.client().delete(&path(&session, "/files/a"));
    server.client().bytes("GET", &path(&session, "/files/a"), &[], b"").reply().problem(404, "not_found");
    let other = limited(&server, "2M");
    put(&server, &other, "a", 0xff, 900_000).expect(201);
}
