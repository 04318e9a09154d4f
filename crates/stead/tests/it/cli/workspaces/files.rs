//! Files, snapshots, clones and blobs from the command line.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;

use crate::cli::kit::{self, Ran, run, stead};

/// Runs the binary with these bytes on its standard input.
fn fed(home: &std::path::Path, args: &[&str], input: &[u8]) -> Ran {
    let mut child =
        stead(home).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let done = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: done.status.code(), out: text(done.stdout), err: text(done.stderr) }
}

#[test]
fn a_file_goes_in_and_out() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
    fs::write(folder.path().join("in put.bin"), &bytes).unwrap();
    let local = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(run(home, &["cp", &local("in put.bin"), &format!("{id}:new/dir/")]).ok(), "");
    run(home, &["cp", &format!("{id}:/workspace/new/dir/in put.bin"), &local("out.bin")]).ok();
    assert_eq!(fs::read(local("out.bin")).unwrap(), bytes);
    // A copy into a directory keeps its name; a copy to a file replaces it completely.
    run(home, &["cp", &format!("{id}:new/dir/in put.bin"), &local("")]).ok();
    let placed = run(home, &["--json", "cp", &local("out.bin"), &format!("{id}:new/dir/in put.bin")]).json();
    assert_eq!((&placed["path"], &placed["bytes"]), (&json!("new/dir/in put.bin"), &json!(300_000)));
    fed(home, &["cp", "-", &format!("{id}:note")], b"from a pipe\n").ok();
    assert_eq!(run(home, &["cp", &format!("{id}:note"), "-"]).ok(), "from a pipe\n");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "no drafts are left: {left:?}");
}

#[test]
fn a_directory_goes_in_and_out() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("tree/empty")).unwrap();
    fs::write(folder.path().join("tree/run.sh"), "#!/bin/sh\n").unwrap();
    std::os::unix::fs::symlink("run.sh", folder.path().join("tree/link")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path().join("tree/run.sh"), mode).unwrap();
    let local = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    run(home, &["cp", "-r", &local("tree"), &format!("{id}:copy")]).ok();
    run(home, &["cp", "-r", &format!("{id}:copy"), &local("back")]).ok();
    let compared = std::process::Command::new("diff")
        .args(["-r", "--no-dereference", &local("tree"), &local("back")])
        .output()
        .unwrap();
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
    assert!(folder.path().join("back/empty").is_dir());
    assert_eq!(fs::read_link(folder.path().join("back/link")).unwrap().to_str(), Some("run.sh"));
    // Existing files are not replaced, neither locally nor in the session.
    let again = run(home, &["cp", "-r", &format!("{id}:copy"), &local("back")]);
    assert_eq!(again.code, Some(1), "{}", again.err);
    assert!(again.err.contains("already exists"), "{}", again.err);
    assert_eq!(run(home, &["cp", "-r", &local("tree"), &format!("{id}:copy")]).code, Some(1));
    let missing = run(home, &["cp", &format!("{id}:copy"), &local("x")]);
    assert!(missing.err.contains("is a directory") && missing.err.contains("-r"), "{}", missing.err);
}

#[test]
fn mistakes_are_named() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    for (args, code, words) in [
        (vec!["cp", "a", "b"], 2, "SESSION:PATH"),
        (vec!["cp", "ses_1:a", "ses_2:b"], 2, "must be local"),
        (vec!["cp", "/nonexistent/file", "ses_1:b"], 1, "cannot read /nonexistent/file"),
        (vec!["cp", "-", "ses_1:"], 2, "name the target file"),
        (vec!["cp", "ses_1:a", "-"], 1, "there is no session"),
        (vec!["blob", "put", "/nonexistent"], 1, "cannot read"),
        (vec!["restore", &id, "snap_1"], 1, "there is no snapshot"),
        (vec!["session", "clone", &id, "--count", "65"], 2, "65"),
    ] {
        let ran = run(home, &args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
    let missing = run(home, &["cp", &format!("{id}:nothing"), "-"]);
    assert!(missing.err.contains("no such file or directory: nothing"), "{}", missing.err);
}

#[test]
fn keep_change_look_and_put_back() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    fed(home, &["cp", "-", &format!("{id}:a.txt")], b"one\n").ok();
    let kept = run(home, &["snapshot", &id, "--name", "first"]).ok();
    let kept = kept.trim();
    assert!(kept.starts_with("snap_"), "{kept}");
    fed(home, &["cp", "-", &format!("{id}:a.txt")], b"two\n").ok();
    let diff = run(home, &["diff", &id]).ok();
    assert!(diff.starts_with("diff --git a/a.txt b/a.txt\n") && diff.ends_with("+two\n"), "{diff}");
    assert_eq!(run(home, &["diff", &id, "--name-only"]).ok(), "a.txt\n");
    assert_eq!(run(home, &["--json", "diff", &id]).json()["changed"], json!(["a.txt"]));
    assert_eq!(run(home, &["export", &id, "--format", "patch"]).ok(), diff);
    run(home, &["restore", &id, kept]).ok();
    assert_eq!(run(home, &["cp", &format!("{id}:a.txt"), "-"]).ok(), "one\n");
    let listed = run(home, &["snapshot", &id, "--list"]).ok();
    assert!(listed.contains(kept) && listed.contains("first"), "{listed}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.tar");
    let written = run(home, &["--json", "export", &id, "-o", file.to_str().unwrap()]).json();
    assert_eq!(written["bytes"], fs::metadata(&file).unwrap().len());
}

#[test]
fn clones_and_bundles() {
    let server = kit::server();
    let (home, id) = (server.home(), kit::session(&server));
    fed(home, &["cp", "-", &format!("{id}:a.txt")], b"one\n").ok();
    let clones = run(home, &["--json", "session", "clone", &id, "--count", "2"]).json();
    let clone = clones["items"][1]["id"].as_str().unwrap().to_owned();
    assert_eq!(run(home, &["cp", &format!("{clone}:a.txt"), "-"]).ok(), "one\n");
    let shared = run(home, &["session", "clone", &id, "--isolation", "none"]).ok();
    assert!(shared.contains("ses_") && shared.contains("active"), "{shared}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bundle.tar");
    run(home, &["export", &id, "-o", file.to_str().unwrap()]).ok();
    let digest = run(home, &["blob", "put", file.to_str().unwrap()]).ok();
    let policy = json!({"type": "bundle", "source": {"blob": digest.trim()}});
    let made = server.session(json!({"agent_type": "coder", "task": {"workspace_policy": policy}}));
    assert_eq!(made["workspace"]["base"]["digest"], digest.trim());
    let read = server.tool(&made, "read", json!({"path": "a.txt"}));
    assert_eq!(read["result"]["content"], "one\n");
}

#[test]
fn the_server_takes_no_more_than_its_upload_limit() {
    let options = stead_testkit::ServerOptions::default().env("STEAD_MAX_UPLOAD", "1K");
    let server = stead_testkit::TestServer::start_with(kit::BINARY, options);
    let home = server.home();
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (folder.path().join("small"), folder.path().join("large"));
    fs::write(&small, vec![b'x'; 1024]).unwrap();
    fs::write(&large, vec![b'x'; 1025]).unwrap();
    run(home, &["blob", "put", small.to_str().unwrap()]).ok();
    let refused = run(home, &["blob", "put", large.to_str().unwrap()]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("more than 1024 bytes"), "{}", refused.err);
}

#[test]
fn changes_are_applied_to_a_host_directory_on_request_only() {
    let server = kit::server();
    let home = server.home();
    let outer = tempfile::tempdir().unwrap();
    // In a subdirectory of a repository, where git would resolve paths from the top.
    let git = std::process::Command::new("git").args(["init", "--quiet"]).arg(outer.path()).status().unwrap();
    assert!(git.success());
    let project = outer.path().join("sub/project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("edit.txt"), "one\ntwo\nthree\n").unwrap();
    fs::write(project.join("gone.txt"), "gone\n").unwrap();
    let root = project.to_str().unwrap();
    server.client().put("/platform", json!({"allowed_host_roots": [root]})).expect(200);
    let mounts = json!([{"host_path": root, "mount_path": "/"}]);
    server.agent_type("m", json!({"enabled": true, "provider": "memory", "mounts": mounts}));
    let session = server.session(json!({"agent_type": "m"}));
    let id = session["id"].as_str().unwrap();
    server.tool(&session, "edit", json!({"path": "edit.txt", "old_string": "two", "new_string": "zwei"}));
    server.tool(&session, "rm", json!({"path": "gone.txt"}));
    server.tool(&session, "write", json!({"path": "new/file.txt", "content": "new\n"}));
    assert_eq!(fs::read_to_string(project.join("edit.txt")).unwrap(), "one\ntwo\nthree\n", "nothing by itself");

    run(home, &["apply", id, "--to", root, "--check"]).ok();
    assert!(project.join("gone.txt").exists(), "a check changes nothing");
    // If the directory has changed, the whole apply is refused.
    fs::write(project.join("gone.txt"), "changed meanwhile\n").unwrap();
    let refused = run(home, &["apply", id, "--to", root]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("gone.txt"), "{}", refused.err);
    assert_eq!(fs::read_to_string(project.join("edit.txt")).unwrap(), "one\ntwo\nthree\n");
    fs::write(project.join("gone.txt"), "gone\n").unwrap();

    let answer = run(home, &["--json", "apply", id, "--to", root]).json();
    assert_eq!(
        answer,
        json!({"changed": ["edit.txt", "gone.txt", "new/file.txt"], "applied": true, "omitted": [], "ignored": 0})
    );
    assert_eq!(fs::read_to_string(project.join("edit.txt")).unwrap(), "one\nzwei\nthree\n");
    assert_eq!(fs::read_to_string(project.join("new/file.txt")).unwrap(), "new\n");
    assert!(!project.join("gone.txt").exists());
    assert_eq!(run(home, &["apply", id, "--to", "/nowhere/at/all"]).code, Some(1));
}

#[test]
fn f13_what_no_patch_can_hold_is_added_whole_and_never_written_over_blindly() {
    let server = kit::server();
    let home = server.home();
    let outer = tempfile::tempdir().unwrap();
    let project = outer.path().join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("old.bin"), b"\0old").unwrap();
    fs::write(project.join("gone.bin"), b"\0gone").unwrap();
    fs::write(project.join("edit.txt"), "one\n").unwrap();
    let root = project.to_str().unwrap();
    server.client().put("/platform", json!({"allowed_host_roots": [root]})).expect(200);
    let mounts = json!([{"host_path": root, "mount_path": "/"}]);
    server.agent_type("m", json!({"enabled": true, "provider": "memory", "mounts": mounts}));
    let session = server.session(json!({"agent_type": "m"}));
    let id = session["id"].as_str().unwrap();
    let put = |path: &str, bytes: &[u8]| {
        let path = format!("/sessions/{id}/files/{path}?mkdir=1");
        let reply = server.client().bytes("PUT", &path, &[], bytes).reply();
        assert!([200, 201].contains(&reply.status), "{}", reply.text);
    };
    server.tool(&session, "edit", json!({"path": "edit.txt", "old_string": "one", "new_string": "two"}));
    put("deep/new.bin", b"\0new");
    // Git hooks written by the agent would run as the user of the directory, so neither text nor
    // binary ones are applied.
    put(".git/hooks/post-checkout", b"#!/bin/sh\ntouch pwn\n");
    put("sub/.git/hooks/pre-commit", b"#!/bin/sh\n\0");
    // A link out of the directory lies where the new file would go.
    std::os::unix::fs::symlink(outer.path(), project.join("deep")).unwrap();
    let refused = run(home, &["apply", id, "--to", root]);
    assert!(refused.code == Some(1) && refused.err.contains("deep/new.bin"), "{}", refused.err);
    assert!(!outer.path().join("new.bin").exists());
    assert_eq!(fs::read_to_string(project.join("edit.txt")).unwrap(), "one\n", "all of it or nothing");
    fs::remove_file(project.join("deep")).unwrap();
    run(home, &["apply", id, "--to", root]).ok();
    assert_eq!(fs::read(project.join("deep/new.bin")).unwrap(), b"\0new");
    assert!(!project.join(".git").exists() && !project.join("sub").exists(), "a repository's own files stay there");
    assert_eq!(fs::read_to_string(project.join("edit.txt")).unwrap(), "two\n");

    // An existing file must have the content that the session started with.
    fs::write(project.join("edit.txt"), "one\n").unwrap();
    fs::remove_dir_all(project.join("deep")).unwrap();
    put("old.bin", b"\0changed");
    server.tool(&session, "rm", json!({"path": "gone.bin"}));
    fs::write(project.join("old.bin"), b"\0other").unwrap();
    let refused = run(home, &["apply", id, "--to", root]);
    assert!(refused.code == Some(1) && refused.err.contains("old.bin"), "{}", refused.err);
    assert_eq!(fs::read(project.join("old.bin")).unwrap(), b"\0other");
    assert!(!project.join("deep").exists() && fs::read_to_string(project.join("edit.txt")).unwrap() == "one\n");
    assert!(project.join("gone.bin").exists());
    fs::write(project.join("old.bin"), b"\0old").unwrap();
    run(home, &["apply", id, "--to", root, "--check"]).ok();
    assert_eq!(fs::read(project.join("old.bin")).unwrap(), b"\0old", "a check changes nothing");
    run(home, &["apply", id, "--to", root]).ok();
    assert_eq!(fs::read(project.join("old.bin")).unwrap(), b"\0changed");
    assert_eq!(fs::read_to_string(project.join("edit.txt")).unwrap(), "two\n");
    assert!(!project.join("gone.bin").exists());
    let left: Vec<_> = fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".stead-")), "{left:?}");
}
