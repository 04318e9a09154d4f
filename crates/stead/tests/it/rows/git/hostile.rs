//! G6: malicious URLs, references and repositories. Nothing is executed, nothing escapes, and each
//! refusal has a typed code.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use stead_testkit::GitServer;

use super::{agent, git_server, sh, start, with_settings};

#[test]
fn g6_urls_that_are_no_urls_are_refused_before_git_runs() {
    let (server, git) = git_server();
    git.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    let pwn = std::env::temp_dir().join(format!("stead-g6-{}", std::process::id()));
    let touch = format!("touch${{IFS}}{}", pwn.display());
    let urls = [
        format!("--upload-pack={touch}"),
        format!("ext::sh -c {touch}"),
        format!("ext::sh%20-c%20{touch}"),
        "fd::17/foo".to_owned(),
        format!("ssh://-oProxyCommand={touch}/x"),
        format!("-oProxyCommand={touch}@host:x"),
        format!("user@-oProxyCommand={touch}:x"),
        "git://127.0.0.1/app".to_owned(),
        "file:///etc".to_owned(),
        "/etc".to_owned(),
        "../etc".to_owned(),
        "ftp://127.0.0.1/app".to_owned(),
        "http://user:pass@127.0.0.1/app".to_owned(),
        "https://token@github.com/a/b".to_owned(),
        "http://127.0.0.1:1/app".to_owned(),
        "https://169.254.169.254/latest".to_owned(),
        "https://[::1]/app".to_owned(),
        "https://0x7f000001/app".to_owned(),
        "http://example.org/app".to_owned(),
        "ssh://git@10.0.0.1/app".to_owned(),
        "git@127.0.0.1:--upload-pack=x".to_owned(),
        format!("{}\r\nX: y", git.url("app")),
        "transport::https://github.com/a".to_owned(),
        "C:/x".to_owned(),
    ];
    for url in urls {
        let reply = server
            .client()
            .post("/sessions?wait=20", json!({"agent_type": "g", "task": {"context": {"repository_url": url}}}));
        assert!((400..500).contains(&reply.status), "{url}: {}", reply.text);
    }
    for reference in ["--upload-pack=x", "-x", "a..b", "a b", "@{-1}", "a:b", "refs/heads/../../x", "a\nb", "x.lock"] {
        let body =
            json!({"agent_type": "g", "task": {"context": {"repository_url": git.url("app"), "branch": reference}}});
        let reply = server.client().post("/sessions?wait=20", body);
        assert_eq!(reply.status, 400, "{reference}: {}", reply.text);
    }
    assert!(git.requests().is_empty() && !pwn.exists(), "git ran");
}

#[test]
fn a_name_that_resolves_to_loopback_is_refused() {
    let (server, git) = git_server();
    git.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    // The host's own name resolves to one of its own addresses.
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let port = git.host().rsplit(':').next().unwrap().to_owned();
    let session = server.client().post(
        "/sessions?wait=30",
        json!({"agent_type": "g", "task": {"context": {"repository_url": format!("https://{name}:{port}/app")}}}),
    );
    if session.status == 201 {
        let (code, message) = super::failed(&session.json());
        assert!(["repository_refused", "git_unreachable"].contains(&code.as_str()), "{code}: {message}");
    } else {
        session.problem(422, "repository_refused");
    }
    assert!(git.requests().is_empty());
}

/// A repository of hand-made objects that git's porcelain would refuse to create.
struct Forged<'a> {
    bare: &'a Path,
}

impl Forged<'_> {
    fn git(&self, args: &[&str], input: &[u8]) -> String {
        let mut child = Command::new("git")
            .arg("--git-dir")
            .arg(self.bare)
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .envs([
                ("GIT_AUTHOR_NAME", "x"),
                ("GIT_AUTHOR_EMAIL", "x"),
                ("GIT_COMMITTER_NAME", "x"),
                ("GIT_COMMITTER_EMAIL", "x"),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "git {args:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn blob(&self, content: &str) -> String {
        self.git(&["hash-object", "-w", "--stdin"], content.as_bytes())
    }

    /// Writes a tree object; mode, name and object id of each entry are not validated.
    fn tree(&self, entries: &[(&str, &str, &str)]) -> String {
        let mut bytes = Vec::new();
        for (mode, name, object) in entries {
            bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            bytes.extend((0..20).map(|index| u8::from_str_radix(&object[2 * index..2 * index + 2], 16).unwrap()));
        }
        self.git(&["hash-object", "-w", "--literally", "-t", "tree", "--stdin"], &bytes)
    }

    fn set_branch(&self, branch: &str, tree: &str) {
        let commit = self.git(&["commit-tree", "-m", "x", tree], b"");
        self.git(&["update-ref", &format!("refs/heads/{branch}"), &commit], b"");
    }
}

/// Creates one repository with a malicious branch per attack. Each must be refused or harmless.
fn traps(git: &GitServer) -> Vec<String> {
    let repository = git.repository("traps", &[("a", "1\n")]);
    let forged = Forged { bare: repository.bare() };
    let blob = forged.blob(&format!("#!/bin/sh\ntouch {}\n", trap_file().display()));
    let link = |target: &str| forged.blob(target);
    let file = "100644";
    let sub = forged.tree(&[(file, "x", &blob)]);
    let hooks = forged.tree(&[("100755", "post-checkout", &blob)]);
    let git_dir = forged.tree(&[("40000", "hooks", &hooks)]);
    let mut names = Vec::new();
    let mut trap = |name: &str, tree: String| {
        forged.set_branch(name, &tree);
        names.push(name.to_owned());
    };
    trap("dot-git-directory", forged.tree(&[("40000", ".git", &git_dir)]));
    trap("dot-git-upper", forged.tree(&[("40000", ".GIT", &git_dir)]));
    trap("dot-git-file", forged.tree(&[(file, ".git", &link("gitdir: /tmp/evil"))]));
    trap("dot-git-link", forged.tree(&[("120000", ".git", &link("/tmp"))]));
    trap("git-ntfs", forged.tree(&[("40000", "git~1", &git_dir)]));
    trap("git-hfs", forged.tree(&[("40000", ".g\u{200c}it", &git_dir)]));
    trap("dotdot", forged.tree(&[("40000", "..", &sub)]));
    trap("dot", forged.tree(&[("40000", ".", &sub)]));
    trap("slash-in-name", forged.tree(&[(file, "a/../../x", &blob)]));
    trap("absolute-name", forged.tree(&[(file, trap_file().to_str().unwrap(), &blob)]));
    trap("empty-name", forged.tree(&[(file, "", &blob)]));
    trap("twice-the-same", forged.tree(&[("120000", "a", &link("/tmp")), ("40000", "a", &sub)]));
    trap("case-clash", forged.tree(&[("120000", "A", &link("/tmp")), ("40000", "a", &sub)]));
    trap("carriage-return", forged.tree(&[(file, "name\r", &blob)]));
    trap("newline", forged.tree(&[(file, "name\nother", &blob)]));
    trap("backslash", forged.tree(&[(file, "..\\x", &blob)]));
    trap(
        "link-out",
        forged.tree(&[("120000", "etc", &link("/etc")), ("120000", "up", &link("../../../../etc/passwd"))]),
    );
    trap("link-long", forged.tree(&[("120000", "l", &link(&"x/".repeat(3000)))]));
    trap("modules-link", forged.tree(&[("120000", ".gitmodules", &link("/etc/passwd"))]));
    trap(
        "modules-option",
        forged.tree(&[(
            file,
            ".gitmodules",
            &forged.blob(&format!(
                "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=touch {}\n",
                trap_file().display()
            )),
        )]),
    );
    trap(
        "modules-escape",
        forged.tree(&[(
            file,
            ".gitmodules",
            &forged.blob("[submodule \"../../x\"]\n\tpath = x\n\turl = https://e.example/\n"),
        )]),
    );
    trap(
        "attributes-filter",
        forged.tree(&[
            (file, ".gitattributes", &forged.blob("* filter=evil diff=evil merge=evil\n")),
            (file, "a", &blob),
        ]),
    );
    trap("gitlink", forged.tree(&[("160000", "sub", &"1".repeat(40))]));
    trap("device-mode", forged.tree(&[("020000", "dev", &blob)]));
    trap("deep", {
        let mut tree = sub.clone();
        for _ in 0..400 {
            tree = forged.tree(&[("40000", "d", &tree)]);
        }
        tree
    });
    trap("many-files", {
        let mut tree = sub.clone();
        for _ in 0..9 {
            let names: Vec<String> = (0..10).map(|number| format!("d{number}")).collect();
            tree = forged.tree(&names.iter().map(|name| ("40000", name.as_str(), tree.as_str())).collect::<Vec<_>>());
        }
        tree
    });
    trap("large-files", {
        let zeros = forged.git(&["hash-object", "-w", "--stdin"], &vec![0; 2 << 20]);
        let names: Vec<String> = (0..1000).map(|number| format!("f{number:04}")).collect();
        forged.tree(&names.iter().map(|name| (file, name.as_str(), zeros.as_str())).collect::<Vec<_>>())
    });
    trap("missing-object", forged.tree(&[(file, "gone", &"2".repeat(40))]));
    trap("long-name", forged.tree(&[(file, &"n".repeat(300), &blob)]));
    names
}

/// The file that the attacks try to create.
fn trap_file() -> PathBuf {
    std::env::temp_dir().join(format!("stead-trap-{}", std::process::id()))
}

#[test]
fn repositories_that_are_traps() {
    let git = GitServer::start();
    let server = with_settings(&git, "max_files = 100000\nmax_checkout = '1G'\n");
    let names = traps(&git);
    agent(&server, json!({}));
    let trap = trap_file();
    let mut report = String::new();
    for name in names {
        let session = start(&server, json!({"repository_url": git.url("traps"), "branch": name}));
        match session["status"].as_str().unwrap() {
            "failed" => {
                let code = session["workspace"]["failures"][0]["code"].as_str().unwrap().to_owned();
                // Git refuses it, or the file layer does if it cannot represent the names or links.
                let typed = code.starts_with("git_")
                    || ["bundle_refused", "files_failed", "box_failed"].contains(&code.as_str());
                assert!(typed, "{name}: {session}");
                let _ = writeln!(report, "{name}: {code}");
            }
            "active" => {
                // An accepted branch is a plain repository of its own without links out of it.
                let output = sh(
                    &server,
                    &session,
                    "test -d .git && test ! -L .git && test ! -e .git/hooks/post-checkout && echo plain",
                );
                assert_eq!(output, "plain", "{name}");
                let _ = writeln!(report, "{name}: harmless");
            }
            other => panic!("{name}: {other}: {session}"),
        }
        let id = session["id"].as_str().unwrap();
        server.client().delete(&format!("/sessions/{id}")).expect(204);
        assert!(!trap.exists(), "{name} ran or wrote something");
    }
    for refused in [
        "dot-git-directory",
        "dot-git-link",
        "dotdot",
        "slash-in-name",
        "twice-the-same",
        "modules-link",
        "missing-object",
    ] {
        assert!(report.contains(&format!("{refused}: git_")), "{refused} was let in:\n{report}");
    }
    for large in ["many-files", "large-files"] {
        assert!(report.contains(&format!("{large}: git_too_large")), "{large}:\n{report}");
    }
}
