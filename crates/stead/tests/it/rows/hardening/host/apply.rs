//! `stead apply` and `stead run --apply` write an agent's changes into a directory of the user.
//! They run nothing that the directory or the agent provides, and write nowhere else.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use stead_testkit::TestServer;

use crate::rows::{build_init, server};

const BINARY: &str = env!("CARGO_BIN_EXE_stead");

/// A directory of the user, and a server whose sessions start with a copy of it.
struct Host {
    server: TestServer,
    folder: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        build_init();
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("project/sub")).unwrap();
        fs::create_dir_all(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("project/a.txt"), "one\ntwo\n").unwrap();
        fs::write(folder.path().join("project/sub/b.txt"), "one\n").unwrap();
        fs::write(folder.path().join("outside/b.txt"), "one\n").unwrap();
        let server = server();
        server.client().put("/platform", json!({"allowed_host_roots": [folder.path()]})).expect(200);
        server.agent_type("h", json!({"enabled": true, "provider": "native", "require_workspace": true}));
        Self { server, folder }
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// Starts a session with the project and runs this command in its box.
    fn session(&self, command: &str) -> Value {
        let policy = json!({"type": "mount", "host_path": self.project(), "mode": "overlay"});
        let session = self.server.session(json!({"agent_type": "h", "task": {"workspace_policy": policy}}));
        assert_eq!(session["status"], "active", "{session}");
        self.sh(&session, command);
        session
    }

    fn sh(&self, session: &Value, command: &str) {
        let answer = self.server.tool(session, "bash", json!({"command": command}));
        assert_eq!(answer["result"]["exit_code"], 0, "{answer}");
    }

    fn stead(&self, args: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.env_clear().env("STEAD_HOME", self.server.home()).env("PATH", std::env::var_os("PATH").unwrap());
        command.args(args).stdin(Stdio::null()).output().unwrap()
    }

    fn apply(&self, session: &Value, more: &[&str]) -> Output {
        let (id, to) = (session["id"].as_str().unwrap(), self.project());
        self.stead(&[&["apply", id, "--to", to.to_str().unwrap()], more].concat())
    }

    /// Asserts that the apply is refused because of this path and changes nothing.
    #[track_caller]
    fn refused(&self, session: &Value, path: &str, why: &str) {
        let before = self.listing();
        for more in [&["--check"][..], &[]] {
            let ran = self.apply(session, more);
            let output = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!(ran.status.code(), Some(1), "{path}: {output}");
            assert!(output.contains(path) && output.contains(why), "{path}: {output}");
            assert_eq!(self.listing(), before, "{path}: something was applied");
        }
    }

    /// Every file of the project and beside it, with its content.
    fn listing(&self) -> Vec<(PathBuf, String)> {
        let (mut left, mut found) = (vec![self.folder.path().to_owned()], Vec::new());
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                let (kind, path) = (entry.file_type().unwrap(), entry.path());
                if kind.is_dir() {
                    left.push(path);
                } else if kind.is_symlink() {
                    found.push((path.clone(), fs::read_link(path).unwrap().display().to_string()));
                } else {
                    found.push((path.clone(), fs::read_to_string(path).unwrap()));
                }
            }
        }
        found.sort();
        found
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.project().join(path)).unwrap()
    }
}

#[track_caller]
fn ok(ran: &Output) {
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
}

/// Turns a directory into a repository whose filters create `mark` when git reads or writes a file.
fn plant_filters(project: &Path, mark: &Path) {
    for directory in ["objects", "refs", "info"] {
        fs::create_dir_all(project.join(directory)).unwrap();
    }
    let program = format!("touch {}", mark.display());
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = {program}\n\
         [filter \"evil\"]\n\tclean = {program}\n\tsmudge = {program}\n\tprocess = {program}\n"
    );
    for (name, text) in [
        ("HEAD", "ref: refs/heads/main\n"),
        ("config", &config),
        (".gitattributes", "* filter=evil\n"),
        ("info/attributes", "* filter=evil\n"),
    ] {
        fs::write(project.join(name), text).unwrap();
    }
}

#[test]
fn applying_runs_nothing_that_the_directory_or_the_agent_planted() {
    let host = Host::new();
    let (project, mark) = (host.project(), host.folder.path().join("mark"));
    plant_filters(&project, &mark);
    let plant_more = "echo '*.txt filter=evil' > sub/.gitattributes; mkdir -p .git/hooks; \
                      printf '#!/bin/sh\\ntouch mark\\n' > .git/hooks/post-applypatch; chmod +x .git/hooks/*";
    let session = host.session(&format!("sed -i s/two/zwei/ a.txt; {plant_more}"));
    ok(&host.apply(&session, &["--check"]));
    assert_eq!(host.text("a.txt"), "one\ntwo\n", "a check changes nothing");
    ok(&host.apply(&session, &[]));
    assert_eq!(host.text("a.txt"), "one\nzwei\n");
    assert!(project.join("sub/.gitattributes").exists() && !project.join(".git").exists());
    let directory = project.to_str().unwrap();
    ok(&host.stead(&["run", "--dir", directory, "--apply", "--", "sh", "-c", "sed -i s/zwei/drei/ a.txt"]));
    assert_eq!(host.text("a.txt"), "one\ndrei\n");
    assert!(!mark.exists(), "a planted program ran");

    // Control: `git apply` in the same directory runs the filter, even if it only checks.
    let patch = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-drei\n+two\n";
    let mut git = Command::new("git");
    git.args(["-c", "core.hooksPath=/dev/null", "apply", "--check", "-"]).current_dir(&project);
    git.env("GIT_CEILING_DIRECTORIES", host.folder.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let mut git = git.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut git.stdin.take().unwrap(), patch.as_bytes()).unwrap();
    git.wait().unwrap();
    assert!(mark.exists(), "the control ran nothing");
}

#[test]
fn applying_makes_no_link_that_leads_out_of_the_directory() {
    let host = Host::new();
    symlink(host.outside(), host.project().join("lent")).unwrap();
    for (link, target) in [
        ("absolute", "/etc/passwd"),
        ("above", "../outside/b.txt"),
        ("sub/above", "../../outside"),
        ("down-and-up", "sub/../../outside"),
        ("by-a-link", "lent/b.txt"),
        ("to-a-link", "lent"),
        ("round", "round"),
    ] {
        let session = host.session(&format!("ln -s {target} {link}; echo three >> a.txt"));
        host.refused(&session, link, "link");
        host.server.client().delete(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(204);
    }
    // Two links of one session that look harmless alone and lead out together: the first one is
    // already refused.
    let session = host.session("ln -s sub/.. here; ln -s here/../outside there; echo three >> a.txt");
    host.refused(&session, "here", "link");
    // Control: links that stay inside are created.
    let session = host.session("ln -s a.txt good; ln -s ../a.txt sub/good; ln -s sub folder; echo three >> a.txt");
    ok(&host.apply(&session, &[]));
    assert_eq!(host.text("sub/good"), "one\ntwo\nthree\n");
    assert_eq!(fs::read_link(host.project().join("folder")).unwrap(), Path::new("sub"));
}

#[test]
fn applying_writes_through_no_link_of_the_directory() {
    let host = Host::new();
    let session = host.session("echo two >> sub/b.txt; echo three >> a.txt");
    let sub = host.project().join("sub");
    fs::rename(&sub, host.project().join("moved")).unwrap();
    symlink(host.outside(), &sub).unwrap();
    host.refused(&session, "sub/b.txt", "link");
    fs::remove_file(&sub).unwrap();
    // The file itself is a link to a file with the same text.
    fs::rename(host.project().join("moved"), &sub).unwrap();
    fs::remove_file(sub.join("b.txt")).unwrap();
    symlink(host.outside().join("b.txt"), sub.join("b.txt")).unwrap();
    host.refused(&session, "sub/b.txt", "is not what the session began with");
    assert_eq!(fs::read_to_string(host.outside().join("b.txt")).unwrap(), "one\n");
    // Control: without the link the same changes are applied.
    fs::remove_file(sub.join("b.txt")).unwrap();
    fs::write(sub.join("b.txt"), "one\n").unwrap();
    ok(&host.apply(&session, &[]));
    assert_eq!((host.text("sub/b.txt"), host.text("a.txt")), ("one\ntwo\n".to_owned(), "one\ntwo\nthree\n".to_owned()));
}

#[test]
fn applied_files_never_have_set_id_bits_and_keep_who_may_read_them() {
    let host = Host::new();
    let mode = |path: &str| fs::metadata(host.project().join(path)).unwrap().permissions().mode() & 0o7777;
    let set = |path: &str, mode: u32| {
        fs::set_permissions(host.project().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let session = host.session(
        "echo three >> a.txt; echo two >> sub/b.txt; chmod +x sub/b.txt; printf '#!/bin/sh\\n' > new; chmod 6755 new || chmod 755 new; \
         printf '\\0' > new.bin; chmod 6777 new.bin || chmod 777 new.bin",
    );
    set("a.txt", 0o6755);
    set("sub/b.txt", 0o600);
    // Control: the bits were set before.
    assert_eq!(mode("a.txt"), 0o6755);
    ok(&host.apply(&session, &[]));
    assert_eq!([mode("a.txt"), mode("sub/b.txt")], [0o755, 0o700]);
    assert_eq!([mode("new"), mode("new.bin")], [0o755, 0o755]);
}

/// Each of the two links stays inside alone; together they lead out.
#[test]
fn links_that_lead_out_only_together_are_not_made_one_after_the_other() {
    let host = Host::new();
    let first = host.session("mkdir p; ln -s m/../../outside/b.txt p/l");
    host.refused(&first, "p/l", "out of the directory");
    let copy = host.folder.path().join("copy");
    let id = first["id"].as_str().unwrap();
    let ran = host.stead(&["cp", "-r", &format!("{id}:p"), copy.to_str().unwrap()]);
    assert_eq!(ran.status.code(), Some(1), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(fs::read_dir(&copy).is_ok_and(|mut entries| entries.next().is_none()), "nothing is copied");
    // The control: a link that climbs first and then stays inside is created.
    let second = host.session("mkdir p; ln -s ../sub/b.txt p/l");
    ok(&host.apply(&second, &[]));
    assert_eq!(host.text("p/l"), "one\n");
    let id = second["id"].as_str().unwrap();
    ok(&host.stead(&["cp", "-r", &format!("{id}:"), copy.to_str().unwrap()]));
    assert_eq!(fs::read_to_string(copy.join("p/l")).unwrap(), "one\n");
}

#[test]
fn a_copied_file_does_not_take_the_set_id_bits_of_the_file_that_it_replaces() {
    let host = Host::new();
    let session = host.session("echo new > a.txt");
    let from = format!("{}:a.txt", session["id"].as_str().unwrap());
    let to = host.folder.path().join("tool");
    fs::write(&to, "old").unwrap();
    for (before, after) in [(0o6755, 0o755), (0o640, 0o640)] {
        fs::set_permissions(&to, fs::Permissions::from_mode(before)).unwrap();
        ok(&host.stead(&["cp", &from, to.to_str().unwrap()]));
        assert_eq!(fs::read_to_string(&to).unwrap(), "new\n");
        assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o7777, after);
    }
}
