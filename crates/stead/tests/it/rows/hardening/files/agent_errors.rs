//! No change that an agent makes to its own files makes the server fail: each refusal has a code
//! and names the path.

use std::fs;
use std::thread;

use serde_json::{Value, json};
use stead_testkit::{Reply, TestServer, until};

use crate::rows::boxes::native;
use crate::rows::{Files, on_podman, server, writer};

mod disk {
    #[test]
    fn unreadable_files_are_named() {
        super::unreadable_files_are_named(super::Files::Disk);
    }

    #[test]
    fn odd_files_are_read_around() {
        super::odd_files_are_read_around(super::Files::Disk);
    }

    #[test]
    fn a_close_during_an_operation_is_a_closed_session() {
        super::a_close_during_an_operation_is_a_closed_session(super::Files::Disk);
    }
}
on_podman!(unreadable_files_are_named, odd_files_are_read_around);

fn id(session: &Value) -> &str {
    session["id"].as_str().unwrap()
}

fn sh(server: &TestServer, session: &Value, command: &str) {
    let answer = server.tool(session, "bash", json!({"command": command}));
    assert_eq!(answer["result"]["exit_code"], 0, "{command}: {answer}");
}

/// Exports the tree as a tar. An error reply has its message as text.
fn export(server: &TestServer, session: &Value, path: &str) -> Reply {
    let reply = server.client().bytes("GET", &format!("/sessions/{}/files/{path}?format=tar", id(session)), &[], b"");
    let text = String::from_utf8_lossy(&reply.bytes).into_owned();
    Reply { status: reply.status, headers: reply.headers, text }
}

fn diff(server: &TestServer, session: &Value) -> Reply {
    server.client().get(&format!("/sessions/{}/diff", id(session)))
}

#[test]
fn writes_to_a_read_only_directory_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("d/there"), "1\n").unwrap();
    native::build_init();
    let server = server();
    let root = folder.path().to_str().unwrap();
    server
        .client()
        .put("/platform", json!({"allowed_host_roots": [root], "allowed_root_owned_mounts": [root]}))
        .expect(200);
    server.agent_type("h", json!({"enabled": true, "provider": "native", "require_workspace": true}));
    let mount = |mode: &str| {
        let policy = json!({"type": "mount", "host_path": folder.path().join("d").to_str().unwrap(), "mode": mode});
        server.session(json!({"agent_type": "h", "task": {"workspace_policy": policy}}))
    };
    let tar = {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(2);
        header.set_mode(0o644);
        tar.append_data(&mut header, "unpacked", &b"1\n"[..]).unwrap();
        tar.into_inner().unwrap()
    };
    let write = |session: &Value| {
        let at = |path: &str| format!("/sessions/{}/files/{path}", id(session));
        let client = server.client();
        [
            ("new", client.bytes("PUT", &at("new"), &[], b"x").reply()),
            ("there", client.bytes("PUT", &at("there"), &[], b"x").reply()),
            ("deep", client.bytes("PUT", &at("deep/er/new?mkdir=1"), &[], b"x").reply()),
            (
                "unpacked",
                client.bytes("PUT", &format!("/sessions/{}/files?format=tar", id(session)), &[], &tar).reply(),
            ),
            ("below", client.bytes("PUT", &at("below?format=tar"), &[], &tar).reply()),
            ("made", client.bytes("PUT", &at("made?format=directory"), &[], b"").reply()),
            ("there", client.delete(&at("there"))),
        ]
    };
    for (name, reply) in write(&mount("ro")) {
        let detail = reply.problem(409, "read_only");
        assert!(detail.contains(name), "{name}: {detail}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("d/there")).unwrap(), "1\n");
    // The control: the same requests change a writable one.
    for (name, reply) in write(&mount("rw")) {
        assert!(reply.status < 300, "{name}: {}", reply.text);
    }
}

fn unreadable_files_are_named(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    sh(&server, &session, "mkdir -p open closed/inner && echo 1 > closed/f && echo 1 > open/f");
    export(&server, &session, "").expect_status(200);
    for (hide, show, name) in
        [("chmod 000 closed", "chmod 755 closed", "closed"), ("chmod 000 open/f", "chmod 644 open/f", "open/f")]
    {
        sh(&server, &session, hide);
        for (what, reply) in [("export", export(&server, &session, "")), ("diff", diff(&server, &session))] {
            let detail = reply.problem(409, "permission_denied");
            assert!(detail.contains(name), "{what}: {detail}");
        }
        let read = server.client().get(&format!("/sessions/{}/files/{name}", id(&session)));
        read.problem(409, "permission_denied");
        for (tool, arguments) in
            [("grep", json!({"pattern": "1"})), ("ls", json!({"path": "closed"})), ("read", json!({"path": "open/f"}))]
        {
            // The tool must answer; the content does not matter.
            server.tool(&session, tool, arguments);
        }
        assert!(server.client().get(&format!("/sessions/{}/digest", id(&session))).status < 500);
        // The control: once readable again, both files are in the tar and in the diff.
        sh(&server, &session, show);
        export(&server, &session, "").expect_status(200);
        let changed = diff(&server, &session).expect(200)["changed"].to_string();
        assert!(changed.contains("closed/f") && changed.contains("open/f"), "{changed}");
    }
}

fn odd_files_are_read_around(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let make = "python3 -c 'import os; os.mkfifo(\"pipe\")' && ln -s loop loop && ln -s /etc/passwd out && ln -s f/x through && echo 1 > f && \
                printf '1\\n' > \"$(printf 'not\\377utf8')\"";
    sh(&server, &session, make);
    let get = |path: &str| server.client().get(&format!("/sessions/{}/files/{path}", id(&session)));
    for path in ["pipe", "loop", "out", "through", "f/x", "f/x/y", &"n".repeat(300), &"d/".repeat(3_000)] {
        let reply = get(path);
        assert!((400..500).contains(&reply.status), "{path}: {} {}", reply.status, reply.text);
        let put = server.client().bytes("PUT", &format!("/sessions/{}/files/{path}", id(&session)), &[], b"x").reply();
        assert!(put.status < 500, "{path}: {} {}", put.status, put.text);
    }
    export(&server, &session, "").expect_status(200);
    assert!(diff(&server, &session).expect(200)["changed"].to_string().contains("utf8"));
    // The control: an ordinary file is read.
    assert_eq!(get("f").text, "1\n");
}

#[test]
fn a_tree_that_changes_while_it_is_read_is_an_answer() {
    let server = Files::Disk.server();
    let session = writer(&server, Files::Disk);
    sh(&server, &session, "mkdir a b && seq 1 2000 > a/f && seq 1 9 > b/f");
    let swap = "while :; do mv a c; ln -s b a; rm a; mkdir a; rmdir a; mv c a; seq 1 2000 > a/f; : > a/f; mkfifo a/p; \
                rm a/p; touch swapped; done 2>/dev/null";
    let begun = json!({"command": swap, "background": true});
    server.client().post(&format!("/sessions/{}/execs", id(&session)), begun).expect(201);
    let swapped =
        || (server.client().get(&format!("/sessions/{}/files/swapped", id(&session))).status == 200).then_some(());
    until("the first swap", swapped);
    for _ in 0..15 {
        for reply in [export(&server, &session, ""), diff(&server, &session)] {
            assert!([200, 409].contains(&reply.status), "{} {}", reply.status, reply.text);
        }
    }
}

#[test]
fn a_tree_too_deep_for_a_patch_is_refused() {
    let server = Files::Disk.server();
    let session = writer(&server, Files::Disk);
    let dig = |depth: usize| {
        format!(
            "rm -rf d; perl -e 'for (1..{depth}) {{ mkdir \"d\" or die $!; chdir \"d\" or die $!; }} open(F, \">\", \"f\")'"
        )
    };
    // The control: a deep tree is compared.
    sh(&server, &session, &dig(200));
    assert_eq!(diff(&server, &session).expect(200)["changed"].as_array().unwrap().len(), 1);
    sh(&server, &session, &dig(10_000));
    let detail = diff(&server, &session).problem(409, "conflict");
    assert!(detail.contains("1000") && detail.contains("d/d/d"), "{detail}");
}

/// Exports the tree. A close may break the stream off after its first byte, when it has a status.
fn export_to_the_end(server: &TestServer, session: &Value) -> Reply {
    let path = format!("/sessions/{}/files/?format=tar", id(session));
    match server.client().try_bytes("GET", &path, &[], b"") {
        Ok(raw) => {
            Reply { status: raw.status, headers: raw.headers, text: String::from_utf8_lossy(&raw.bytes).into_owned() }
        }
        Err(error) => Reply { status: 200, headers: Vec::new(), text: format!("broken off: {error}") },
    }
}

fn a_close_during_an_operation_is_a_closed_session(files: Files) {
    let server = files.server();
    writer(&server, files);
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let session = server.session(json!({"agent_type": "w"}));
        sh(&server, &session, "for n in $(seq 1 300); do mkdir -p d/$n; echo $n > d/$n/f; done");
        let snapshot = server.client().post(&format!("/sessions/{}/snapshots", id(&session)), json!({})).expect(201);
        let restore = format!("/sessions/{}/snapshots/{}/restore", id(&session), snapshot["id"].as_str().unwrap());
        thread::scope(|scope| {
            let work: Vec<_> = vec![
                scope.spawn(|| export_to_the_end(&server, &session)),
                scope.spawn(|| diff(&server, &session)),
                scope.spawn(|| server.client().post(&restore, json!({}))),
                scope.spawn(|| server.client().post(&format!("/sessions/{}/snapshots", id(&session)), json!({}))),
                scope.spawn(|| server.client().get(&format!("/sessions/{}/digest", id(&session)))),
                scope.spawn(|| {
                    server.client().bytes("PUT", &format!("/sessions/{}/files/p", id(&session)), &[], b"x").reply()
                }),
            ];
            server.client().delete(&format!("/sessions/{}", id(&session))).expect(204);
            for done in work {
                let reply = done.join().unwrap();
                assert!(reply.status != 500, "{} {}", reply.status, reply.text);
                statuses.push(reply.status);
            }
        });
    }
    // The control: some requests came too late and get "session not active".
    assert!(statuses.contains(&409), "{statuses:?}");
}

/// Checks a status, for replies that are not JSON.
trait ExpectStatus {
    fn expect_status(&self, status: u16);
}

impl ExpectStatus for Reply {
    #[track_caller]
    fn expect_status(&self, status: u16) {
        assert_eq!(self.status, status, "{}", self.text.chars().take(500).collect::<String>());
    }
}
