//! Git LFS, if the agent type enables it: objects come from the repository's own host and are
//! verified by their hash.

use serde_json::{Value, json};
use stead_testkit::{GitServer, LfsFault, Repository, TestServer, pointer, sha256, until};

use super::{active, agent, change, failed, git_server, sh, start, with_settings};
use crate::rows::events;

const ATTRIBUTES: &str = "*.bin filter=lfs diff=lfs merge=lfs -text\n";

/// A repository whose `*.bin` files are pointers to these contents.
pub(in crate::rows) fn repository(git: &GitServer, name: &str, contents: &[(&str, &[u8])]) -> Repository {
    let pointers: Vec<(&str, String)> =
        contents.iter().map(|(path, content)| (*path, git.keep(name, content))).collect();
    with_pointers(git, name, &pointers)
}

fn with_pointers(git: &GitServer, name: &str, pointers: &[(&str, String)]) -> Repository {
    let mut files = vec![(".gitattributes", ATTRIBUTES), ("plain.txt", "plain\n")];
    files.extend(pointers.iter().map(|(path, text)| (*path, text.as_str())));
    git.repository(name, &files)
}

fn large(seed: u8) -> Vec<u8> {
    (0..300_000_u32).map(|at| (at.wrapping_mul(31) >> 3) as u8 ^ seed).collect()
}

fn context(git: &GitServer, name: &str) -> Value {
    json!({"repository_url": git.url(name), "branch": "main"})
}

fn count(git: &GitServer, end: &str) -> usize {
    git.requests().iter().filter(|request| request.path.contains("/info/lfs/") && request.path.ends_with(end)).count()
}

#[test]
fn off_they_are_pointers_and_named() {
    let (server, git) = git_server();
    repository(&git, "app", &[("big.bin", &large(1))]);
    agent(&server, json!({}));
    let session = active(&server, context(&git, "app"));
    assert!(sh(&server, &session, "cat big.bin").starts_with("version https://git-lfs"), "a pointer");
    let warning = session["warnings"].as_array().unwrap().iter().find(|warning| warning["code"] == "lfs_left_out");
    let message = warning.unwrap()["message"].as_str().unwrap();
    assert!(message.contains(".gitattributes") && message.contains("git.lfs"), "{message}");
    assert_eq!(count(&git, ""), 0, "nobody was asked");
}

#[test]
fn on_they_are_real_and_git_finds_nothing_changed() {
    let (server, git) = git_server();
    let (one, two) = (large(1), large(2));
    let text = pointer(&sha256(b"x"), 1);
    let files: [(&str, &[u8]); 3] = [("big.bin", &one), ("deep/er/two.bin", &two), ("copy of.bin", &one)];
    let repository = repository(&git, "app", &files);
    // Files that are not pointers (no attribute, or no pointer text), and an executable pointer.
    std::fs::write(repository.work().join("tool.bin"), git.keep("app", b"#!/bin/sh\necho tool\n")).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(repository.work().join("tool.bin"), executable).unwrap();
    repository.commit(&[("example.txt", &text), ("raw.bin", "in git itself\n"), ("empty.bin", "")], "more");
    agent(&server, json!({"git": {"lfs": true}}));
    let kept = server.client().get("/agent-types/g/workspace-config").expect(200);
    assert_eq!(kept["git"]["lfs"], true, "{kept}");
    let session = active(&server, context(&git, "app"));
    let warnings = json!(session["warnings"]).to_string();
    assert!(!warnings.contains("lfs_left_out"), "{warnings}");
    let sums = sh(
        &server,
        &session,
        "sha256sum big.bin deep/er/two.bin 'copy of.bin' | cut -c1-64; cat example.txt raw.bin; ./tool.bin",
    );
    let expected = [sha256(&one), sha256(&two), sha256(&one), format!("{text}in git itself\ntool")].join("\n");
    assert_eq!(sums, expected);
    assert_eq!(sh(&server, &session, "git status --porcelain; git diff --stat"), "");
    assert_eq!(super::git_ok(&server, &session, "status", &["--porcelain"]), "");
    // The status stays clean when git rereads the bytes and when the files are checked out again.
    assert_eq!(sh(&server, &session, "touch big.bin 'copy of.bin' tool.bin && git status --porcelain"), "");
    sh(
        &server,
        &session,
        "git checkout -q --orphan empty && git rm -rfq . && test ! -e big.bin && git checkout -q main",
    );
    assert_eq!(
        sh(&server, &session, "sha256sum big.bin | cut -c1-64; git status --porcelain -- ':!raw.bin'"),
        sha256(&one)
    );
    assert_eq!(sh(&server, &session, "ls .git/lfs/tmp"), "", "nothing is left");
    // As with git-lfs, git sees the raw file as a modification once it reads it again, and the next
    // commit stores a pointer.
    sh(&server, &session, "touch raw.bin && git commit -qam 'a pointer at last'");
    // A modified file is committed as a pointer.
    sh(&server, &session, "echo more >> big.bin && git commit -qam more");
    assert!(sh(&server, &session, "git show HEAD:big.bin").starts_with("version https://git-lfs"));
    assert_eq!(sh(&server, &session, "git status --porcelain"), "");
    // Each object is stored once, however many paths refer to it.
    let used = server.client().get("/usage").expect(200)["layers"]["bytes"].as_u64().unwrap();
    assert!(used < 3 * 300_000, "{used}");
    // Known objects are not requested again, neither for this commit nor for another.
    let (batches, objects) = (count(&git, "/objects/batch"), count(&git, ""));
    active(&server, context(&git, "app"));
    repository.commit(&[("plain.txt", "other\n")], "another");
    let third = until("the new commit", || {
        Some(active(&server, context(&git, "app"))).filter(|third| sh(&server, third, "cat plain.txt") == "other")
    });
    assert_eq!(sh(&server, &third, "sha256sum big.bin | cut -c1-64; git status --porcelain"), sha256(&one));
    assert_eq!((count(&git, "/objects/batch"), count(&git, "")), (batches, objects), "{:?}", git.requests());
    assert_eq!((batches, objects), (1, 4), "each content once");
}

#[test]
fn a_hundred_objects_are_one_request_and_sessions_reuse_them() {
    let (server, git) = git_server();
    let names: Vec<String> = (0..100).map(|at| format!("d{}/f{at}.bin", at % 7)).collect();
    let contents: Vec<Vec<u8>> = (0..100_u32).map(|at| format!("content {at}").into_bytes()).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().zip(&contents).map(|(name, content)| (name.as_str(), content.as_slice())).collect();
    repository(&git, "app", &files);
    agent(&server, json!({"git": {"lfs": true}}));
    let sessions: Vec<Value> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..4).map(|_| scope.spawn(|| active(&server, context(&git, "app")))).collect();
        started.into_iter().map(|session| session.join().unwrap()).collect()
    });
    for session in &sessions {
        assert_eq!(sh(&server, session, "cat d1/f99.bin; git status --porcelain"), "content 99");
    }
    assert_eq!((count(&git, "/objects/batch"), count(&git, "")), (1, 101), "each once for everybody");
}

#[test]
fn a_memory_workspace_and_submodules_have_them_too() {
    let (server, git) = git_server();
    repository(&git, "lib", &[("l.bin", b"of the library")]);
    let app = repository(&git, "app", &[("a.bin", b"of the app")]);
    app.git(&["submodule", "--quiet", "add", "../lib", "lib"]);
    app.commit(&[], "with lib");
    agent(&server, json!({}));
    for provider in ["memory", "native"] {
        change(&server, json!({"provider": provider, "git": {"lfs": true, "submodules": true}}));
        let session = active(&server, context(&git, "app"));
        for (path, expect) in [("a.bin", "of the app"), ("lib/l.bin", "of the library")] {
            let read = server.tool(&session, "read", json!({"path": path}));
            assert_eq!(read["result"]["content"], expect, "{provider}: {read}");
        }
    }
}

#[test]
fn a_repository_on_this_machine_has_its_objects_next_to_it() {
    let server = super::server();
    let (git, lent) = (GitServer::start(), tempfile::tempdir().unwrap());
    repository(&git, "app", &[("a.bin", b"local")]);
    let repository_path = lent.path().join("app");
    assert!(
        std::process::Command::new("cp")
            .args(["-r", git.path("app").to_str().unwrap(), repository_path.to_str().unwrap()])
            .status()
            .unwrap()
            .success()
    );
    server.client().put("/platform", json!({"allowed_host_roots": [lent.path()]})).expect(200);
    agent(&server, json!({"git": {"lfs": true}}));
    let context = json!({"repository_url": repository_path.to_str().unwrap(), "branch": "main"});
    let session = active(&server, context.clone());
    assert_eq!(sh(&server, &session, "cat a.bin; git status --porcelain"), "local");
    let (code, _) = failed(&start(&server, json!({"repository_url": lent.path().join("none")})));
    assert_eq!(code, "git_not_found", "as anywhere else");
    // The object is a symbolic link out of the repository.
    let other = lent.path().join("other");
    assert!(
        std::process::Command::new("cp")
            .args(["-r", repository_path.to_str().unwrap(), other.to_str().unwrap()])
            .status()
            .unwrap()
            .success()
    );
    let oid = sha256(b"local");
    let object = other.join("lfs/objects").join(&oid[..2]).join(&oid[2..4]).join(&oid);
    std::fs::remove_file(&object).unwrap();
    std::os::unix::fs::symlink(
        repository_path.join("lfs/objects").join(&oid[..2]).join(&oid[2..4]).join(&oid),
        &object,
    )
    .unwrap();
    let (code, message) = failed(&start(&server, json!({"repository_url": other.to_str().unwrap(), "branch": "main"})));
    assert!(code == "git_lfs_missing" && message.contains("a.bin"), "{code}: {message}");
}

#[test]
fn g4_what_cannot_be_had_fails_with_its_reason() {
    let git = GitServer::start();
    let server = with_settings(&git, "tries = 2\nmax_transfer = '1M'\nmax_checkout = '3M'\nfresh_seconds = 0\n");
    agent(&server, json!({"git": {"lfs": true}}));
    let oid = sha256(b"nobody has this");
    for (name, fault, pointers, code, words) in [
        ("b404", LfsFault::Batch(404), vec![], "git_lfs_failed", "no luck with 404"),
        ("b401", LfsFault::Batch(401), vec![], "git_unauthorised", "no luck with 401"),
        ("b403", LfsFault::Batch(403), vec![], "git_unauthorised", "no luck with 403"),
        ("b503", LfsFault::Batch(503), vec![], "git_unreachable", "no luck with 503"),
        ("b302", LfsFault::Batch(302), vec![], "git_redirected", "302"),
        ("untrue", LfsFault::Untrue, vec![], "git_lfs_corrupt", "its SHA-256 is"),
        ("endless", LfsFault::Endless, vec![], "git_lfs_corrupt", "more than"),
        ("cut", LfsFault::Cut(9), vec![], "git_unreachable", "a.bin"),
        ("gone", LfsFault::None, vec![("b.bin", pointer(&oid, 5))], "git_lfs_missing", "Object does not exist"),
        ("size", LfsFault::None, vec![("b.bin", pointer(&oid, 1 << 40))], "git_too_large", "1048576"),
        ("liar", LfsFault::None, vec![("b.bin", pointer(&sha256(b"real"), 3))], "git_lfs_corrupt", "more than 3"),
    ] {
        let mut files = vec![("a.bin", git.keep(name, b"real"))];
        files.extend(pointers);
        with_pointers(&git, name, &files);
        git.lfs_fault(fault);
        let (found, message) = failed(&start(&server, context(&git, name)));
        assert!(found == code && message.contains(words), "{name}: {found}: {message}");
    }
    // Many objects that are small individually but exceed the limit together.
    let many: Vec<(String, String)> =
        (0..4).map(|at| (format!("{at}.bin"), pointer(&sha256(format!("{at}").as_bytes()), 1_000_000))).collect();
    let many: Vec<(&str, String)> = many.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
    with_pointers(&git, "many", &many);
    git.lfs_fault(LfsFault::None);
    assert_eq!(failed(&start(&server, context(&git, "many"))).0, "git_too_large");
    // Transient failures are retried, and a repository that failed earlier can be used once it
    // works.
    git.lfs_fault(LfsFault::Cut(1));
    let session = active(&server, context(&git, "cut"));
    assert_eq!(sh(&server, &session, "cat a.bin"), "real");
    let home = server.home().join("mirrors");
    let left = std::fs::read_dir(home)
        .unwrap()
        .flatten()
        .flat_map(|mirror| std::fs::read_dir(mirror.path().join("lfs/aside")).into_iter().flatten());
    assert_eq!(left.flatten().count(), 0, "nothing half is left");
}

#[test]
fn s9_a_killed_server_goes_on_with_them() {
    let (mut server, git) = git_server();
    repository(&git, "app", &[("big.bin", &large(1)), ("two.bin", &large(2))]);
    agent(&server, json!({"git": {"lfs": true}}));
    git.lfs_fault(LfsFault::Held);
    let body = json!({"agent_type": "g", "task": {"context": context(&git, "app")}});
    let session = server.client().post("/sessions", body).expect(201)["id"].as_str().unwrap().to_owned();
    let aside = |server: &TestServer| {
        let mirrors = std::fs::read_dir(server.home().join("mirrors")).unwrap().flatten();
        mirrors
            .flat_map(|mirror| std::fs::read_dir(mirror.path().join("lfs/aside")).into_iter().flatten().flatten())
            .count()
    };
    until("transfers in their middle", || (aside(&server) == 2 && count(&git, "") == 3).then_some(()));
    until("progress", || {
        let answer = json!(events(&server, &session, "InitStepProgress")).to_string();
        (answer.contains("Receiving Git LFS objects") && answer.contains("/2), ")).then_some(())
    });
    server.kill();
    assert_eq!(aside(&server), 2, "left by the kill");
    git.lfs_fault(LfsFault::None);
    server.restart(None);
    let settled = until("the session", || {
        let now = server.client().get(&format!("/sessions/{session}")).expect(200);
        (now["status"] != "provisioning").then_some(now)
    });
    assert_eq!((&settled["status"], &settled["degraded"]), (&json!("active"), &json!(false)), "{settled}");
    assert_eq!(sh(&server, &settled, "sha256sum two.bin | cut -c1-64; git status --porcelain"), sha256(&large(2)));
    assert_eq!(aside(&server), 0);
}

#[test]
fn a_session_that_is_closed_waits_for_no_content() {
    let (server, git) = git_server();
    repository(&git, "app", &[("big.bin", &large(1))]);
    agent(&server, json!({"git": {"lfs": true}}));
    git.lfs_fault(LfsFault::Held);
    let body = json!({"agent_type": "g", "task": {"context": context(&git, "app")}});
    let session = server.client().post("/sessions", body).expect(201)["id"].as_str().unwrap().to_owned();
    until("a transfer", || (count(&git, "") == 2).then_some(()));
    server.client().delete(&format!("/sessions/{session}")).expect(204);
    until("its end", || {
        let now = server.client().get(&format!("/sessions/{session}")).expect(200);
        (now["status"] == "closed").then_some(())
    });
    // The lock is free again, so the next session gets every object.
    git.lfs_fault(LfsFault::None);
    let session = active(&server, context(&git, "app"));
    assert_eq!(sh(&server, &session, "sha256sum big.bin | cut -c1-64"), sha256(&large(1)));
}

#[test]
fn g5_credentials_stay_with_their_host() {
    let (mine, other) = (GitServer::start(), GitServer::start());
    let content = large(3);
    repository(&mine, "app", &[("a.bin", &content)]);
    other.keep("app", &content);
    let server = super::credentials::with_token(&mine);
    agent(&server, json!({"git": {"lfs": true}}));
    let elsewhere = || format!("http://{}", other.host());
    for fault in [LfsFault::Elsewhere(elsewhere()), LfsFault::Moved(elsewhere())] {
        mine.lfs_fault(fault);
        let (code, message) = failed(&start(&server, context(&mine, "app")));
        assert!(code == "git_lfs_refused" && message.contains("lfs_hosts"), "{code}: {message}");
    }
    assert!(other.requests().is_empty(), "{:?}", other.requests());
    // Objects may come from a host that the operator listed, without credentials.
    let mut server = server;
    let file = server.home().join("stead.toml");
    let text = std::fs::read_to_string(&file)
        .unwrap()
        .replace("[git]\n", &format!("[git]\nlfs_hosts = ['{}']\n", other.host()));
    std::fs::write(&file, text).unwrap();
    server.restart(None);
    for fault in [LfsFault::Moved(elsewhere()), LfsFault::Elsewhere(elsewhere())] {
        mine.lfs_fault(fault);
        let session = active(&server, context(&mine, "app"));
        assert_eq!(sh(&server, &session, "sha256sum a.bin | cut -c1-64"), sha256(&content));
    }
    assert!(!other.requests().is_empty() && other.requests().iter().all(|request| request.authorization.is_none()));
    // If that host requires credentials, none are sent and the error says so.
    other.require("bot", "another");
    repository(&mine, "shut", &[("a.bin", b"shut")]);
    let (code, message) = failed(&start(&server, context(&mine, "shut")));
    assert!(
        code == "git_unauthorised" && message.contains("Stead sends no credential to this host"),
        "{code}: {message}"
    );
    assert!(message.contains(&other.host()), "{message}");
    let audit = server.client().get("/audit?type=credential_used&limit=100").expect(200);
    assert!(audit["items"].as_array().unwrap().len() >= 4, "{audit}");
    // The server repeats the credentials in its answer.
    with_pointers(&mine, "gone", &[("a.bin", pointer(&sha256(b"gone"), 4))]);
    for (fault, expect) in [(LfsFault::Batch(403), "git_unauthorised"), (LfsFault::None, "git_lfs_missing")] {
        mine.lfs_fault(fault);
        let (code, message) = failed(&start(&server, context(&mine, "gone")));
        assert!(code == expect && message.contains("***"), "{code}: {message}");
    }
    assert_eq!(super::credentials::found_below(server.home()), Vec::<String>::new());
    // The repository's `.lfsconfig` is ignored.
    let third = GitServer::start();
    let config = format!("[lfs]\n\turl = {}\n", third.url("app"));
    let repository = mine.repository("trap", &[(".gitattributes", ATTRIBUTES), (".lfsconfig", &config)]);
    repository.commit(&[("a.bin", &mine.keep("trap", b"trap"))], "pointer");
    mine.lfs_fault(LfsFault::None);
    let session = active(&server, context(&mine, "trap"));
    assert_eq!(sh(&server, &session, "cat a.bin"), "trap");
    assert!(third.requests().is_empty());
}

#[test]
fn attributes_say_which_and_strange_ones_are_files_like_any_other() {
    let (server, git) = git_server();
    let text = git.keep("app", b"content");
    let attributes = "[attr]large filter=lfs -text\n*.bin large\n/quoted/** filter=lfs\nraw/*.bin -filter\n";
    let names = ["a.bin", "quoted/x", "new\nline.bin", "-rf.bin", "\u{e4} \"q\" \\.bin", "deep/raw/r.bin"];
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (*name, text.as_str())).collect();
    files.extend([(".gitattributes", attributes), ("off/.gitattributes", "*.bin !filter\n")]);
    // None of these are Git LFS files: the attributes exclude them or they are not pointers.
    let kept = [
        ("off/b.bin", text.clone()),
        ("raw/b.bin", text.clone()),
        ("b.txt", text.clone()),
        ("c.bin", format!("{text}x")),
    ];
    files.extend(kept.iter().map(|(name, text)| (*name, text.as_str())));
    let repository = git.repository("app", &files);
    std::os::unix::fs::symlink(&text, repository.work().join("link.bin")).unwrap();
    repository.commit(&[], "a link that reads like a pointer");
    agent(&server, json!({"git": {"lfs": true}}));
    let session = active(&server, context(&git, "app"));
    let found = sh(
        &server,
        &session,
        "git status --porcelain; grep -rlxZ --exclude-dir=.git content . | tr -cd '\\0' | wc -c; test -L link.bin && echo a link",
    );
    assert_eq!(found, format!("{}\na link", names.len()));
    for (name, text) in &kept {
        assert_eq!(sh(&server, &session, &format!("cat {name}")), text.trim_end());
    }
    // A pointer with an extension needs another program, so it fails.
    repository
        .commit(&[("e.bin", &text.replace("oid", &format!("ext-0-x sha256:{}\noid", "1".repeat(64))))], "extended");
    let (code, message) = until("the new commit", || {
        let session = start(&server, context(&git, "app"));
        (session["status"] == "failed").then(|| failed(&session))
    });
    assert!(code == "git_lfs_failed" && message.contains("e.bin"), "{code}: {message}");
}
