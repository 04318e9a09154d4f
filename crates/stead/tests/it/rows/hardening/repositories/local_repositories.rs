//! A user who can write a repository on this machine controls its hooks, configuration and
//! alternates. Git obeys them; the server must not.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use stead_testkit::{Repository, TestServer};

use crate::rows::git::{active, agent, git, git_ok, sh};
use crate::rows::server;

const SECRET: &str = "nobody inside the roots may read this";

/// Runs git without user settings, as the owner of a repository would.
fn plain_git(directory: &Path, args: &[&str]) -> Output {
    Command::new("git")
        .current_dir(directory)
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")])
        .output()
        .unwrap()
}

/// Creates a program that creates the file `name` in `marks`.
fn plant(path: &Path, marks: &Path, name: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\ntouch '{}'\nexit 0\n", marks.join(name).display())).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

/// A server that may read repositories below a directory, with an agent type `m` without boxes.
fn server_for(roots: &Path) -> TestServer {
    let server = server();
    server.client().put("/platform", json!({"allowed_host_roots": [roots]})).expect(200);
    server.agent_type("m", json!({"enabled": true, "provider": "memory", "require_workspace": true}));
    server
}

fn begin(server: &TestServer, repository: &str, branch: &str) -> Value {
    let context = json!({"repository_url": repository, "branch": branch});
    server.session(json!({"agent_type": "m", "task": {"context": context}}))
}

#[test]
fn a_push_to_a_repository_on_this_machine_is_refused_and_none_of_its_hooks_runs() {
    const HOOKS: [&str; 5] = ["post-receive", "post-update", "pre-receive", "reference-transaction", "update"];
    let folder = tempfile::tempdir().unwrap();
    let (roots, marks) = (folder.path().join("roots"), folder.path().join("marks"));
    fs::create_dir_all(&marks).unwrap();
    let lender = Repository::create(&roots.join("lender"), &[("l", "1\n")]);
    let repository = Repository::create(&roots.join("app"), &[("a", "1\n")]);
    let bare = repository.bare().to_owned();
    let tools = folder.path().join("tools");
    for name in HOOKS {
        plant(&bare.join("hooks").join(name), &marks, name);
    }
    for (setting, name) in [
        ("core.alternateRefsCommand", "alternate-refs"),
        ("core.fsmonitor", "fsmonitor"),
        ("core.sshCommand", "ssh"),
        ("uploadpack.packObjectsHook", "pack-objects"),
        ("credential.helper", "credential"),
    ] {
        plant(&tools.join(name), &marks, name);
        repository.git(&["--git-dir", bare.to_str().unwrap(), "config", setting, tools.join(name).to_str().unwrap()]);
    }
    fs::write(bare.join("objects/info/alternates"), format!("{}\n", lender.bare().join("objects").display())).unwrap();

    let server = server_for(&roots);
    agent(&server, json!({}));
    let session = active(&server, json!({"repository_url": bare, "branch": "main"}));
    assert_eq!(sh(&server, &session, "cat a"), "1");
    sh(&server, &session, "echo 2 > a");
    git_ok(&server, &session, "commit", &["-a", "-m", "two"]);
    let before = repository.remote("main");
    let refused = git(&server, &session, "push", &["origin", "main"]);
    assert_eq!(refused["error"]["code"], "git_push_refused", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("hooks"), "{refused}");
    git_ok(&server, &session, "fetch", &["origin", "main"]);
    assert_eq!((names(&marks), repository.remote("main")), (Vec::new(), before), "something ran, or was pushed");

    // Control: git itself, as the owner of the repository, runs each of them.
    fs::write(repository.work().join("a"), "3\n").unwrap();
    for args in [&["commit", "-q", "-a", "-m", "three"][..], &["push", "-q", "origin", "HEAD:main"]] {
        let identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"];
        let done = plain_git(repository.work(), &[&identity[..], args].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let ran = names(&marks);
    for name in HOOKS.iter().chain(&["alternate-refs"]) {
        assert!(ran.iter().any(|mark| mark == name), "the control did not run {name}: {ran:?}");
    }
}

/// A repository without objects of its own that refers to another one.
struct Trap {
    name: &'static str,
    path: PathBuf,
}

/// Ways for a repository inside the roots to lead git to one outside of them.
fn traps(roots: &Path, secret: &Repository) -> Vec<Trap> {
    let (outside, commit) = (secret.bare(), secret.remote("main"));
    let bare = |name: &'static str| {
        let path = roots.join(name);
        assert!(plain_git(roots, &["init", "-q", "--bare", "-b", "main", name]).status.success());
        fs::write(path.join("refs/heads/main"), format!("{commit}\n")).unwrap();
        Trap { name, path }
    };
    let alternates = bare("alternates");
    fs::write(alternates.path.join("objects/info/alternates"), format!("{}\n", outside.join("objects").display()))
        .unwrap();
    let relative = bare("relative-alternates");
    fs::write(relative.path.join("objects/info/alternates"), "../../../secret/objects\n").unwrap();
    let objects = bare("objects-link");
    fs::remove_dir_all(objects.path.join("objects")).unwrap();
    symlink(outside.join("objects"), objects.path.join("objects")).unwrap();
    let packs = bare("pack-links");
    for name in names(&outside.join("objects/pack")) {
        symlink(outside.join("objects/pack").join(&name), packs.path.join("objects/pack").join(&name)).unwrap();
    }
    let folder = bare("pack-folder-link");
    fs::remove_dir_all(folder.path.join("objects/pack")).unwrap();
    symlink(outside.join("objects/pack"), folder.path.join("objects/pack")).unwrap();
    let common = bare("commondir");
    fs::write(common.path.join("commondir"), format!("{}\n", outside.display())).unwrap();
    let file = Trap { name: "git-file", path: roots.join("git-file") };
    fs::create_dir_all(&file.path).unwrap();
    fs::write(file.path.join(".git"), format!("gitdir: {}\n", outside.display())).unwrap();
    let link = Trap { name: "git-link", path: roots.join("git-link") };
    fs::create_dir_all(&link.path).unwrap();
    symlink(outside, link.path.join(".git")).unwrap();
    vec![alternates, relative, objects, packs, folder, common, file, link]
}

#[test]
fn a_repository_on_this_machine_shows_nothing_from_outside_of_the_roots() {
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots");
    fs::create_dir_all(&roots).unwrap();
    let secret = Repository::create(&folder.path().join("secret"), &[("secret.txt", SECRET)]);
    assert!(plain_git(secret.bare(), &["repack", "-a", "-d", "-q"]).status.success());
    let server = server_for(&roots);
    for Trap { name, path } in traps(&roots, &secret) {
        // Control: git reads the repository outside through the one inside.
        let shown = plain_git(&path, &["-c", "safe.directory=*", "cat-file", "-p", "main:secret.txt"]);
        assert_eq!(String::from_utf8_lossy(&shown.stdout), SECRET, "{name}: {shown:?}");
        let session = begin(&server, path.to_str().unwrap(), "main");
        assert_eq!(session["status"], "failed", "{name}: {session}");
        let failure = &session["workspace"]["failures"][0];
        let code = failure["code"].as_str().unwrap();
        assert!(["repository_refused", "git_not_found", "git_failed"].contains(&code), "{name}: {failure}");
    }
    // A reference to another repository inside the roots is allowed.
    let lender = Repository::create(&roots.join("lender"), &[("lent.txt", "lent\n")]);
    assert!(plain_git(&roots, &["clone", "-q", "--bare", "--shared", "lender", "borrower"]).status.success());
    assert!(roots.join("borrower/objects/info/alternates").exists() && lender.bare().exists());
    let session = begin(&server, roots.join("borrower").to_str().unwrap(), "main");
    assert_eq!(session["status"], "active", "{session}");
    assert!(server.tool(&session, "read", json!({"path": "lent.txt"})).to_string().contains("lent"));
}

#[test]
fn branches_tags_and_packed_references_of_a_repository_on_this_machine_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::create(&folder.path().join("app%41"), &[("a", "first\n")]);
    let tagged = repository.remote("main");
    repository.git(&["tag", "-a", "-m", "one", "v1"]);
    repository.git(&["push", "-q", "origin", "v1"]);
    assert!(plain_git(repository.bare(), &["pack-refs", "--all"]).status.success());
    let second = repository.commit(&[("a", "second\n")], "two");
    repository.git(&["tag", "-a", "-m", "two", "v2"]);
    repository.git(&["push", "-q", "origin", "v2"]);
    let clone = folder.path().join("clone");
    assert!(plain_git(folder.path(), &["clone", "-q", "app%41", "clone"]).status.success());
    let server = server_for(folder.path());
    let path = repository.bare().to_str().unwrap();
    for (url, branch, commit) in [
        (path.to_owned(), "main", &second),
        (format!("file://{path}"), "main", &second),
        (path.to_owned(), "v1", &tagged),
        (path.to_owned(), "v2", &second),
        (path.to_owned(), tagged.as_str(), &tagged),
        (clone.to_str().unwrap().to_owned(), "main", &second),
    ] {
        let session = begin(&server, &url, branch);
        assert_eq!(session["status"], "active", "{url} {branch}: {session}");
        assert_eq!(session["workspace"]["base"]["commit"], json!(commit), "{url} {branch}");
    }
    let session = begin(&server, path, "nope");
    assert_eq!(session["workspace"]["failures"][0]["code"], "git_ref_missing", "{session}");
    let left = names(&server.home().join("mirrors"));
    assert!(!left.iter().any(|name| name.starts_with("local")), "snapshots are left: {left:?}");
}

/// A commit that is small on disk but larger in memory than the server's git may use.
#[test]
fn a_commit_that_unpacks_to_gigabytes_ends_the_start_and_not_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("repository");
    fs::create_dir(&repository).unwrap();
    for args in [
        &["init", "-q", "-b", "main"][..],
        &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "small"],
    ] {
        assert!(plain_git(&repository, args).status.success());
    }
    let server = server_for(folder.path());
    let session = begin(&server, repository.to_str().unwrap(), "main");
    assert_eq!(session["status"], "active", "the control: {session}");
    let tree = String::from_utf8(plain_git(&repository, &["rev-parse", "HEAD^{tree}"]).stdout).unwrap();
    let head = format!("tree {}\nauthor a <a@b> 0 +0000\ncommitter a <a@b> 0 +0000\n\n", tree.trim());
    write_commit(&repository, &head, 3 << 30);
    let session = begin(&server, repository.to_str().unwrap(), "huge");
    assert_eq!(session["status"], "failed", "{session}");
    server.client().get("/readyz").expect(200);
}

/// Writes a loose commit whose message is `zeros` bytes of one letter, and a branch `huge` at it.
fn write_commit(repository: &Path, head: &str, zeros: u64) {
    let script = format!(
        "import hashlib, os, zlib\nhead = {head:?}.encode()\nsize = len(head) + {zeros}\n\
         start = b'commit %d\\0' % size + head\nsha, pack, out = hashlib.sha1(start), zlib.compressobj(1), []\n\
         out.append(pack.compress(start))\npiece = b'a' * (1 << 20)\n\
         for _ in range({zeros} >> 20):\n  sha.update(piece); out.append(pack.compress(piece))\n\
         out.append(pack.flush())\nname = sha.hexdigest()\nfolder = '.git/objects/' + name[:2]\n\
         os.makedirs(folder, exist_ok=True)\nopen(folder + '/' + name[2:], 'wb').write(b''.join(out))\n\
         open('.git/refs/heads/huge', 'w').write(name + '\\n')\n"
    );
    let made = std::process::Command::new("python3").args(["-c", &script]).current_dir(repository).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
