//! F10 snapshots and restore, F13 diff and export.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use stead_fs::{DiskFs, Filesystem as _};
use stead_testkit::{Reply, TestServer, until};

use crate::rows::boxes::podman;
use crate::rows::hardening::limits::ordinary_user;
use crate::rows::{Files, events, on_both, on_podman, put, server_with, writer};

fn path(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

fn snapshot(server: &TestServer, session: &Value, body: Value) -> Value {
    server.client().post(&path(session, "/snapshots"), body).expect(201)
}

/// Waits until a snapshot has its hash and returns the snapshot.
#[track_caller]
fn hashed(server: &TestServer, session: &Value, snapshot: &Value) -> Value {
    until("the hash of a snapshot", || {
        let listed = server.client().get(&path(session, "/snapshots")).expect(200);
        let found = listed["items"].as_array().unwrap().iter().find(|item| item["id"] == snapshot["id"]).cloned();
        found.filter(|found| found["tree_hash_absent"] != "pending")
    })
}

fn restore(server: &TestServer, session: &Value, snapshot: &Value) -> Reply {
    let below = format!("/snapshots/{}/restore", snapshot["id"].as_str().unwrap());
    server.client().send("POST", &path(session, &below), &[], None)
}

/// Everything a workspace contains, as a sorted tar listing.
fn tree(server: &TestServer, session: &Value) -> Vec<(String, char, u32, Vec<u8>)> {
    let tar = server.client().bytes("GET", &path(session, "/export?format=tar"), &[], &[]).expect(200);
    let mut found = Vec::new();
    for entry in tar::Archive::new(&tar[..]).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        let header = entry.header();
        let kind = match header.entry_type() {
            tar::EntryType::Directory => 'd',
            tar::EntryType::Symlink => 'l',
            _ => 'f',
        };
        if let Some(target) = entry.link_name_bytes() {
            content = target.into_owned();
        }
        let mode = header.mode().unwrap();
        found.push((entry.path().unwrap().to_string_lossy().into_owned(), kind, mode, content));
    }
    found
}

/// A tree with one of everything: an executable, a link, an empty directory, an ignored file.
fn fill(server: &TestServer, session: &Value) {
    let mut builder = tar::Builder::new(Vec::new());
    let mut add = |name: &str, kind: tar::EntryType, mode: u32, content: &[u8], target: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        if kind == tar::EntryType::Symlink {
            builder.append_link(&mut header, name, target).unwrap();
        } else {
            builder.append_data(&mut header, name, content).unwrap();
        }
    };
    add("run.sh", tar::EntryType::Regular, 0o755, b"#!/bin/sh\necho hi\n", "");
    add("empty", tar::EntryType::Directory, 0o755, b"", "");
    add("src/a.txt", tar::EntryType::Regular, 0o644, b"one\ntwo\nthree\n", "");
    add("src/gone.txt", tar::EntryType::Regular, 0o644, b"will go\n", "");
    add("link", tar::EntryType::Symlink, 0o777, b"", "src/a.txt");
    add(".gitignore", tar::EntryType::Regular, 0o644, b"*.log\n", "");
    add("debug.log", tar::EntryType::Regular, 0o644, b"ignored\n", "");
    let tar = builder.into_inner().unwrap();
    server.client().bytes("PUT", &path(session, "/files?format=tar"), &[], &tar).reply().expect(200);
}

/// Changes, removes and adds entries of each kind.
fn change(server: &TestServer, session: &Value) {
    let files = |at: &str| path(session, &format!("/files/{at}"));
    server.tool(session, "edit", json!({"path": "src/a.txt", "old_string": "two", "new_string": "2"}));
    assert_eq!(server.client().delete(&files("src/gone.txt")).status, 204);
    assert_eq!(server.client().delete(&files("empty")).status, 204);
    assert_eq!(server.client().delete(&files("link")).status, 204);
    assert_eq!(server.client().delete(&files("run.sh")).status, 204);
    put(server, session, "run.sh", b"plain now\n");
    put(server, session, "more.log", b"also ignored\n");
    put(server, session, "new/deep/file?mkdir=1", b"no newline at the end");
}

fn f10_restore_puts_everything_back(files: Files) {
    let mut server = files.server();
    let session = writer(&server, files);
    fill(&server, &session);
    let before = tree(&server, &session);
    assert!(before.contains(&("run.sh".to_owned(), 'f', 0o755, b"#!/bin/sh\necho hi\n".to_vec())), "{before:?}");
    let kept = snapshot(&server, &session, json!({"name": "before"}));
    assert_eq!(kept["name"], "before");
    change(&server, &session);
    assert_ne!(tree(&server, &session), before);
    let later = snapshot(&server, &session, json!({}));
    // The snapshot of a box whose processes have not ended yet gets its hash later.
    let (kept, later) = (hashed(&server, &session, &kept), hashed(&server, &session, &later));
    assert!(later["tree_hash"].is_string() && later["tree_hash"] != kept["tree_hash"], "{later}");
    let restored = restore(&server, &session, &kept).expect(200);
    assert_eq!((&restored["id"], &restored["tree_hash"]), (&kept["id"], &kept["tree_hash"]));
    assert_eq!(tree(&server, &session), before);
    // Restore the later snapshot, then the earlier one after a restart.
    restore(&server, &session, &later).expect(200);
    server.restart(None);
    assert_ne!(tree(&server, &session), before);
    restore(&server, &session, &kept).expect(200);
    assert_eq!(tree(&server, &session), before);
    let shown = server.client().get(&path(&session, "")).expect(200);
    // A box does not tell the hash of its current files.
    let current = if matches!(files, Files::Memory) { kept["tree_hash"].clone() } else { Value::Null };
    assert_eq!((&shown["workspace"]["snapshots"], &shown["workspace"]["tree_hash"]), (&json!(2), &current));
    let listed = server.client().get(&path(&session, "/snapshots")).expect(200);
    assert_eq!(listed["items"], json!([kept, later]));
}

fn f10_equal_trees_have_equal_hashes_on_every_provider(files: Files) {
    let server = files.server();
    server.agent_type("m", json!({"enabled": true, "provider": "memory"}));
    let hash = |session: &Value| {
        for (path, content) in [("a", &b"one"[..]), ("d/b", b"caf\xE9\0"), ("d/c", b"")] {
            put(&server, session, &format!("{path}?mkdir=1"), content);
        }
        assert_eq!(server.tool(session, "mkdir", json!({"path": "empty/below"}))["ok"], true);
        hashed(&server, session, &snapshot(&server, session, json!({})))["tree_hash"].clone()
    };
    let (here, memory) = (writer(&server, files), server.session(json!({"agent_type": "m"})));
    let expected = hash(&memory);
    assert!(expected.is_string());
    assert_eq!(hash(&here), expected);
    // The hash belongs to the snapshot, also after later changes.
    put(&server, &here, "a", b"two");
    let listed = server.client().get(&path(&here, "/snapshots")).expect(200);
    assert_eq!(listed["items"][0]["tree_hash"], expected);
    let changed = snapshot(&server, &here, json!({}));
    assert_ne!(hashed(&server, &here, &changed)["tree_hash"], expected);
    let replay = server.client().get(&path(&here, "/replay")).expect(200);
    assert_eq!(replay["identical"], true);
}

/// Puts the same files into a session and returns the hash of a snapshot.
fn hash_of_same_files(server: &TestServer, session: &Value) -> Value {
    for (path, content) in [("a", &b"one"[..]), ("d/b", b"caf\xE9\0"), ("d/c", b"")] {
        put(server, session, &format!("{path}?mkdir=1"), content);
    }
    let links = "ln -s ../a d/link; ln -s nowhere dangling; printf '#!/bin/sh' > run; chmod 700 run; chmod 600 a; \
                 mkdir -p empty/below; ln a twice";
    let ran = server.tool(session, "bash", json!({"command": links}));
    assert_eq!(ran["result"]["exit_code"], 0, "{ran}");
    hashed(server, session, &snapshot(server, session, json!({})))["tree_hash"].clone()
}

/// The users and uid ranges of boxes differ, and so does the way to keep their files.
#[test]
fn f10_boxes_of_root_of_an_ordinary_user_and_with_copied_files_have_equal_hashes() {
    let root = Files::Disk.server();
    let expected = hash_of_same_files(&root, &writer(&root, Files::Disk));
    assert!(expected.is_string(), "{expected}");
    let ordinary = ordinary_user::server();
    let here = hash_of_same_files(&ordinary.server, &writer(&ordinary.server, Files::Disk));
    assert_eq!(here, expected, "native, ordinary user");
    // A rootless Podman cannot mount layers, so the files of its boxes are copied.
    let copied = server_with(podman::options().env("STEAD_PODMAN_TREES", "copied"));
    let session = writer(&copied, Files::Container);
    assert_eq!(session["workspace"]["trees"], "copied", "{session}");
    assert_eq!(hash_of_same_files(&copied, &session), expected, "podman, copied");
}

/// A tar with more entries than a snapshot hashes before it answers.
fn many_files() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for number in 0..6_000 {
        let mut header = tar::Header::new_gnu();
        let text = format!("file {number}\n");
        header.set_mode(if number % 7 == 0 { 0o755 } else { 0o644 });
        header.set_size(text.len() as u64);
        builder.append_data(&mut header, format!("d{}/f{number}", number % 40), text.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

fn f10_a_large_tree_gets_its_hash_after_the_snapshot(files: Files) {
    let mut server = files.server();
    server.agent_type("m", json!({"enabled": true, "provider": "memory"}));
    let (here, memory) = (writer(&server, files), server.session(json!({"agent_type": "m"})));
    let tar = many_files();
    for session in [&here, &memory] {
        server.client().bytes("PUT", &path(session, "/files?format=tar"), &[], &tar).reply().expect(200);
    }
    let expected = snapshot(&server, &memory, json!({}))["tree_hash"].clone();
    let kept = snapshot(&server, &here, json!({}));
    assert_eq!((&kept["tree_hash"], &kept["tree_hash_absent"]), (&Value::Null, &json!("pending")), "{kept}");
    // Later changes are not part of it, and a restart of the server does not lose it.
    put(&server, &here, "d1/f1", b"changed");
    server.restart(None);
    put(&server, &here, "d2/f2", b"changed");
    assert_eq!(hashed(&server, &here, &kept)["tree_hash"], expected);
    let events = events(&server, here["id"].as_str().unwrap(), "SnapshotHashed");
    assert_eq!(events.len(), 1, "{events:?}");
    let large = vec![1; 33 << 20];
    for session in [&here, &memory] {
        put(&server, session, "d1/f1", b"changed");
        put(&server, session, "d2/f2", b"changed");
        put(&server, session, "large", &large);
    }
    let (here_kept, memory_kept) = (snapshot(&server, &here, json!({})), snapshot(&server, &memory, json!({})));
    assert_eq!(hashed(&server, &here, &here_kept)["tree_hash"], memory_kept["tree_hash"]);
    // A close does not wait for a hash.
    let last = snapshot(&server, &here, json!({}));
    assert_eq!(last["tree_hash_absent"], "pending", "{last}");
    assert_eq!(server.client().delete(&path(&here, "")).status, 204);
    hashed(&server, &here, &last);
}

fn f10_what_is_refused(files: Files) {
    let server = files.server();
    let (session, other) = (writer(&server, files), server.session(json!({"agent_type": "w"})));
    let kept = snapshot(&server, &session, json!({}));
    restore(&server, &other, &kept).problem(404, "not_found");
    let client = server.client();
    client.send("POST", &path(&session, "/snapshots/snap_1/restore"), &[], None).problem(404, "not_found");
    client.post(&path(&session, "/snapshots"), json!({"title": "x"})).problem(400, "invalid_request");
    let agent = client.with_token(session["token"].as_str().unwrap());
    agent.post(&path(&session, "/snapshots"), json!({})).problem(403, "forbidden");
    assert_eq!(client.delete(&path(&session, "")).status, 204);
    client.post(&path(&session, "/snapshots"), json!({})).problem(409, "session_not_active");
}

fn f10_a_key_makes_one_snapshot(files: Files) {
    let mut server = files.server();
    let session = writer(&server, files);
    let ask = |server: &TestServer, body: Value| {
        let at = path(&session, "/snapshots");
        server.client().send("POST", &at, &[("idempotency-key", "k")], Some(body.to_string()))
    };
    let first = ask(&server, json!({"name": "a"})).expect(201);
    assert_eq!(ask(&server, json!({"name": "a"})).expect(201), first);
    ask(&server, json!({"name": "b"})).problem(422, "idempotency_mismatch");
    server.restart(None);
    assert_eq!(ask(&server, json!({"name": "a"})).expect(201), first);
    assert_eq!(server.client().get(&path(&session, "/snapshots")).expect(200)["items"].as_array().unwrap().len(), 1);
}

fn git(directory: &Path, arguments: &[&str]) {
    let done = Command::new("git").args(arguments).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The files below a directory in the form of `tree`, without directories, which a patch cannot
/// express.
fn on_disk(root: &Path) -> Vec<(String, char, u32, Vec<u8>)> {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt as _;
    let (mut found, mut ahead) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = ahead.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let facts = path.symlink_metadata().unwrap();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if facts.is_symlink() {
                found.push((name, 'l', 0o777, path.read_link().unwrap().as_os_str().as_bytes().to_vec()));
            } else if facts.is_dir() {
                ahead.push(path);
            } else {
                let mode = if facts.permissions().mode() & 0o100 == 0 { 0o644 } else { 0o755 };
                found.push((name, 'f', mode, std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn f13_the_patch_applied_by_git_gives_the_same_tree(files: Files) {
    let server = files.server();
    let base = tempfile::tempdir().unwrap();
    std::fs::write(base.path().join("keep"), "kept\n").unwrap();
    std::fs::write(base.path().join("edit me"), "one\r\ntwo\r\nthree").unwrap();
    std::fs::write(base.path().join("gone"), "gone\n").unwrap();
    let roots = [base.path().to_str().unwrap()];
    server.client().put("/platform", json!({"allowed_host_roots": roots})).expect(200);
    let mounts = json!([{"host_path": roots[0], "mount_path": "/"}]);
    server.agent_type("m", json!({"enabled": true, "provider": files.provider(), "mounts": mounts}));
    let session = server.session(json!({"agent_type": "m"}));
    let clean = server.client().get(&path(&session, "/diff")).expect(200);
    assert_eq!(
        clean,
        json!({"changed": [], "unshown": [], "contents": {}, "patch": "", "files": [], "omitted": [], "ignored": 0}),
        "{session}"
    );

    server.tool(&session, "edit", json!({"path": "edit me", "old_string": "two", "new_string": "zwei"}));
    assert_eq!(server.client().delete(&path(&session, "/files/gone")).status, 204);
    fill(&server, &session);
    let diff = server.client().get(&path(&session, "/diff")).expect(200);
    assert!(diff["changed"].as_array().unwrap().contains(&json!("edit me")), "{diff}");
    let patch = diff["patch"].as_str().unwrap();
    assert_eq!(diff["omitted"], json!([{"path": "empty", "reason": "empty_directory"}]));
    let text = format!("# not in this patch: empty (empty directory)\n{patch}");
    for form in [("/diff?format=patch", "*/*"), ("/diff", "text/x-diff"), ("/export?format=patch", "*/*")] {
        let reply = server.client().send("GET", &path(&session, form.0), &[("accept", form.1)], None);
        assert_eq!((reply.header("content-type"), reply.text.as_str()), (Some("text/x-diff"), text.as_str()));
    }
    git(base.path(), &["-c", "init.defaultBranch=main", "init", "--quiet"]);
    std::fs::write(base.path().join(".git/patch"), patch).unwrap();
    git(base.path(), &["-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", ".git/patch"]);
    std::fs::remove_dir_all(base.path().join(".git")).unwrap();
    let mut expected: Vec<_> = tree(&server, &session).into_iter().filter(|entry| entry.1 != 'd').collect();
    expected.sort();
    assert_eq!(on_disk(base.path()), expected);
    server.client().get(&path(&session, "/diff?format=zip")).problem(400, "invalid_request");
    server.client().get(&path(&session, "/export?format=zip")).problem(400, "invalid_request");
}

fn f10_a_snapshot_of_a_busy_box_gets_its_hash_later(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    // A process that may write keeps the box busy. The other entries must not mislead a reader.
    let command = "echo x > plain; ln -s /etc/passwd link; python3 -c 'import os; os.mkfifo(\"pipe\")'; sleep 60";
    let execs = path(&session, "/execs");
    let exec = server.client().post(&execs, json!({"command": command, "background": true})).expect(201);
    until("the files of the command", || {
        (server.tool(&session, "stat", json!({"path": "pipe"}))["ok"] == true).then_some(())
    });
    let busy = snapshot(&server, &session, json!({}));
    assert_eq!((&busy["tree_hash"], &busy["tree_hash_absent"]), (&Value::Null, &json!("pending")), "{busy}");
    server.client().delete(&format!("{execs}/{}", exec["id"].as_str().unwrap()));
    let same = tempfile::tempdir().unwrap();
    std::fs::write(same.path().join("plain"), "x\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", same.path().join("link")).unwrap();
    let expected = json!(DiskFs::open(same.path()).unwrap().tree_hash().unwrap().to_string());
    assert_eq!(hashed(&server, &session, &busy)["tree_hash"], expected);
    // The agent itself cannot read this file.
    assert_eq!(server.tool(&session, "bash", json!({"command": "chmod 000 plain"}))["result"]["exit_code"], 0);
    let unreadable = snapshot(&server, &session, json!({}));
    assert_eq!(hashed(&server, &session, &unreadable)["tree_hash"], expected);
}

on_both!(
    f10_restore_puts_everything_back,
    f10_equal_trees_have_equal_hashes_on_every_provider,
    f10_what_is_refused,
    f10_a_key_makes_one_snapshot,
    f13_the_patch_applied_by_git_gives_the_same_tree
);

on_podman!(
    f10_restore_puts_everything_back,
    f10_equal_trees_have_equal_hashes_on_every_provider,
    f10_what_is_refused,
    f10_a_key_makes_one_snapshot,
    f13_the_patch_applied_by_git_gives_the_same_tree
);

mod later_hashes {
    use super::{f10_a_large_tree_gets_its_hash_after_the_snapshot, f10_a_snapshot_of_a_busy_box_gets_its_hash_later};

    crate::rows::on_boxes!(
        f10_a_large_tree_gets_its_hash_after_the_snapshot,
        f10_a_snapshot_of_a_busy_box_gets_its_hash_later
    );
}
