//! F13: a diff is what `git apply` and `stead apply` take, on every provider.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use stead_fs::WorkspacePath;
use stead_testkit::{GitServer, TestServer};

use super::change_sets::{self, Node, Tree};
use crate::rows::git::allow;
use crate::rows::{Files, on_all, put, writer};

const BINARY: &str = env!("CARGO_BIN_EXE_stead");

fn path(session: &Value, below: &str) -> String {
    format!("/sessions/{}{below}", session["id"].as_str().unwrap())
}

/// Packs the entries of a tree that are wanted.
fn tar(tree: &Tree, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    let os = |bytes: &[u8]| std::ffi::OsStr::from_bytes(bytes).to_owned();
    let mut builder = tar::Builder::new(Vec::new());
    for (path, node) in tree.iter().filter(|(path, _)| wanted(path)) {
        let mut header = tar::Header::new_gnu();
        let (content, mode) = match node {
            Node::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                header.set_mode(0o777);
                builder.append_link(&mut header, os(path), os(target)).unwrap();
                continue;
            }
            Node::Plain(content) => (content, 0o644),
            Node::Executable(content) => (content, 0o755),
        };
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, os(path), &content[..]).unwrap();
    }
    builder.into_inner().unwrap()
}

/// The first segment of a path.
fn top(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'/').next().unwrap()
}

/// Changes a session's files from one tree to another.
fn change(server: &TestServer, session: &Value, from: &Tree, to: &Tree) {
    let differing: BTreeSet<&[u8]> =
        from.keys().chain(to.keys()).filter(|path| from.get(*path) != to.get(*path)).map(|path| top(path)).collect();
    let present: BTreeSet<&[u8]> = from.keys().map(|path| top(path)).collect();
    for name in differing.intersection(&present) {
        let name = WorkspacePath::from_segments([*name]).unwrap().to_string();
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let reply = server.client().delete(&path(session, &format!("/files/{encoded}")));
        assert_eq!(reply.status, 204, "{name:?}: {}", reply.text);
    }
    let tar = tar(to, |path| differing.contains(top(path)));
    server.client().bytes("PUT", &path(session, "/files?format=tar"), &[], &tar).reply().expect(200);
}

/// Runs git without any configuration of the machine.
fn git(directory: &Path, arguments: &[&str], input: &str) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(arguments).current_dir(directory);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    let mut git = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    git.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = git.wait_with_output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}\n{input}", String::from_utf8_lossy(&done.stderr));
}

fn stead(server: &TestServer, arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.env_clear().env("STEAD_HOME", server.home()).env("PATH", std::env::var_os("PATH").unwrap());
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn ok(ran: &Output) -> String {
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout.clone()).unwrap()
}

fn f13_random_changes_reach_a_checkout(files: Files) {
    let server = files.server();
    let base = change_sets::base();
    let stored = server.client().bytes("POST", "/blobs", &[], &tar(&base, |_| true)).reply().expect(201);
    server.agent_type("b", json!({"enabled": true, "provider": files.provider()}));
    let policy = json!({"type": "bundle", "source": {"blob": stored["digest"]}});
    let session = server.session(json!({"agent_type": "b", "task": {"workspace_policy": policy}}));
    let id = session["id"].as_str().unwrap();

    let folder = tempfile::tempdir().unwrap();
    let origin = folder.path().join("origin");
    std::fs::create_dir(&origin).unwrap();
    change_sets::write(&base, &origin);
    git(&origin, &["-c", "init.defaultBranch=main", "init", "-q"], "");
    git(&origin, &["add", "-A", "-f"], "");
    git(&origin, &["commit", "-q", "-m", "base"], "");

    let mut current = base.clone();
    for seed in 0..change_sets::count() {
        let changed = change_sets::changed(&base, seed);
        change(&server, &session, &current, &changed);
        let diff = server.client().get(&path(&session, "/diff")).expect(200);
        assert_eq!((&diff["unshown"], &diff["ignored"]), (&json!([]), &json!(0)), "seed {seed}");
        let reply = server.client().get(&path(&session, "/export?format=patch"));
        let patch = reply.text;
        assert!(patch.ends_with(diff["patch"].as_str().unwrap()), "seed {seed}");

        let checkout = folder.path().join(format!("git-{seed}"));
        git(folder.path(), &["clone", "-q", "origin", checkout.to_str().unwrap()], "");
        if changed != base {
            for arguments in [&["apply", "--check", "-"][..], &["apply", "--whitespace=nowarn", "-"]] {
                git(&checkout, arguments, &patch);
            }
        }
        assert_eq!(change_sets::read(&checkout), changed, "seed {seed}: {patch}");

        let directory = folder.path().join(format!("stead-{seed}"));
        std::fs::create_dir(&directory).unwrap();
        change_sets::write(&base, &directory);
        ok(&stead(&server, &["apply", id, "--to", directory.to_str().unwrap()]));
        assert_eq!(change_sets::read(&directory), changed, "seed {seed}: {patch}");
        std::fs::remove_dir_all(checkout).unwrap();
        std::fs::remove_dir_all(directory).unwrap();
        current = changed;
    }
}

fn names(diff: &Value) -> Vec<&str> {
    diff["changed"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

fn f13_a_checkout_leaves_out_ignored_files(files: Files) {
    let (server, git) = (files.server(), GitServer::start());
    allow(&server, &git);
    let repository = git.repository("app", &[(".gitignore", "*.log\n/target/\n"), ("a.txt", "a\n")]);
    std::fs::write(repository.work().join("kept.log"), "tracked\n").unwrap();
    repository.git(&["add", "-f", "kept.log"]);
    repository.git(&["commit", "-q", "-m", "kept"]);
    repository.git(&["push", "-q", "origin", "main"]);
    server.agent_type("g", json!({"enabled": true, "provider": files.provider()}));
    let context = json!({"repository_url": git.url("app"), "branch": "main"});
    let session = server.session(json!({"agent_type": "g", "task": {"context": context}}));
    put(&server, &session, "b.txt", b"b\n");
    put(&server, &session, "kept.log", b"changed\n");
    put(&server, &session, "debug.log", b"x\n");
    put(&server, &session, "target/debug/out?mkdir=1", b"x\n");
    let get = |below: &str| server.client().get(&path(&session, below));
    let diff = get("/diff").expect(200);
    assert_eq!((names(&diff), &diff["ignored"]), (vec!["b.txt", "kept.log"], &json!(2)), "{diff}");
    let all = get("/diff?all=true").expect(200);
    assert_eq!(names(&all), ["b.txt", "debug.log", "kept.log", "target/debug/out"]);
    assert_eq!(all["ignored"], 0);
    let patch = get("/export?format=patch").text;
    assert!(patch.starts_with("# not in this patch: 2 files that .gitignore matches\ndiff --git "), "{patch}");
    assert!(get("/export?format=patch&all=true").text.contains("target/debug/out"));
    get("/diff?all=yes").problem(400, "invalid_request");
    // The current rules of the workspace count.
    put(&server, &session, ".gitignore", b"*.txt\n");
    let diff = get("/diff").expect(200);
    assert_eq!(names(&diff), [".gitignore", "debug.log", "kept.log", "target/debug/out"]);
}

fn f13_only_a_repository_has_ignored_files(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, ".gitignore", b"*.log\n");
    put(&server, &session, "debug.log", b"x\n");
    let get = || server.client().get(&path(&session, "/diff")).expect(200);
    assert_eq!((names(&get()), &get()["ignored"]), (vec![".gitignore", "debug.log"], &json!(0)));
    put(&server, &session, ".git/HEAD?mkdir=1", b"ref: refs/heads/main\n");
    assert_eq!((names(&get()), &get()["ignored"]), (vec![".gitignore"], &json!(1)));
}

fn f13_a_nested_repository_is_reported(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    for path in [".git/HEAD", ".Git/HEAD", "sub/.git/HEAD", "sub/.git/refs/x", "sub/code", "deep/er/.GIT"] {
        put(&server, &session, &format!("{path}?mkdir=1"), b"x\n");
    }
    put(&server, &session, "sub/.git/objects/info?format=directory", b"");
    let diff = server.client().get(&path(&session, "/diff")).expect(200);
    assert_eq!(names(&diff), ["sub/code"]);
    let repository = |path: &str| json!({"path": path, "reason": "repository"});
    assert_eq!(diff["omitted"], json!([repository(".Git"), repository("deep/er/.GIT"), repository("sub/.git")]));
    let patch = server.client().get(&path(&session, "/diff?format=patch")).text;
    assert!(patch.starts_with("# not in this patch: .Git (nested repository)\n"), "{patch}");
    let shown = stead(&server, &["diff", session["id"].as_str().unwrap()]);
    let notes = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(notes.contains("sub/.git is a repository of its own, which a patch cannot hold"), "{notes}");
}

fn f13_what_a_patch_cannot_hold_is_reported(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    put(&server, &session, "image", b"\0\x01\xff");
    put(&server, &session, "large", &vec![b'x'; 9 << 20]);
    put(&server, &session, "empty/inner?format=directory", b"");
    let diff = server.client().get(&path(&session, "/diff")).expect(200);
    assert_eq!(diff["unshown"], json!(["large"]));
    assert_eq!(diff["contents"]["large"]["mode"], "100644");
    assert_eq!(diff["omitted"], json!([{"path": "empty/inner", "reason": "empty_directory"}]));
    let files = json!([
        {"path": "image", "kind": "added", "new_mode": "100644", "old_bytes": 0, "new_bytes": 3},
        {"path": "large", "kind": "added", "new_mode": "100644", "old_bytes": 0, "new_bytes": 9 << 20},
    ]);
    assert_eq!(diff["files"], files);
    let patch = server.client().get(&path(&session, "/diff?format=patch")).text;
    let start = "# not in this patch: large (too large)\n# not in this patch: empty/inner (empty directory)\n";
    assert!(patch.starts_with(start) && patch.contains("GIT binary patch\nliteral 3\n"), "{patch}");
    let stat = " image | Bin 0 -> 3 bytes\n large | Bin 0 -> 9437184 bytes\n 2 files changed, 0 insertions(+), 0 \
                deletions(-)\n";
    let reply = server.client().get(&path(&session, "/diff?format=stat"));
    assert_eq!((reply.header("content-type"), reply.text.as_str()), (Some("text/plain"), stat));

    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["-c", "init.defaultBranch=main", "init", "-q"], "");
    git(folder.path(), &["apply", "-"], &patch);
    assert_eq!(std::fs::read(folder.path().join("image")).unwrap(), b"\0\x01\xff");
    let id = session["id"].as_str().unwrap();
    assert_eq!(ok(&stead(&server, &["diff", id, "--stat"])), stat);
    assert_eq!(ok(&stead(&server, &["diff", id, "--name-status"])), "A\timage\nA\tlarge\n");
    let json: Value = serde_json::from_str(&ok(&stead(&server, &["--json", "diff", id, "--stat"]))).unwrap();
    assert_eq!((&json["files"], &json["patch"]), (&files, &Value::Null));
    let target = tempfile::tempdir().unwrap();
    let applied = stead(&server, &["apply", id, "--to", target.path().to_str().unwrap()]);
    ok(&applied);
    assert!(String::from_utf8_lossy(&applied.stderr).contains("empty/inner is an empty directory"));
    assert_eq!(std::fs::metadata(target.path().join("large")).unwrap().len(), 9 << 20);
    assert_eq!(std::fs::read(target.path().join("image")).unwrap(), b"\0\x01\xff");
}

fn f13_a_patch_holds_several_large_files(files: Files) {
    let server = files.server();
    let session = writer(&server, files);
    let mut random = change_sets::Random::new(1);
    let contents: Vec<Vec<u8>> = (0..3).map(|_| random.bytes(4 << 20)).collect();
    for (at, content) in contents.iter().enumerate() {
        put(&server, &session, &format!("{at}.bin"), content);
    }
    let diff = server.client().get(&path(&session, "/diff")).expect(200);
    assert_eq!(diff["unshown"], json!([]), "all of them are in the patch");
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["-c", "init.defaultBranch=main", "init", "-q"], "");
    git(folder.path(), &["apply", "-"], diff["patch"].as_str().unwrap());
    for (at, content) in contents.iter().enumerate() {
        assert!(std::fs::read(folder.path().join(format!("{at}.bin"))).unwrap() == *content, "{at}.bin");
    }
}

on_all!(
    f13_a_patch_holds_several_large_files,
    f13_random_changes_reach_a_checkout,
    f13_a_checkout_leaves_out_ignored_files,
    f13_only_a_repository_has_ignored_files,
    f13_a_nested_repository_is_reported,
    f13_what_a_patch_cannot_hold_is_reported,
);
