//! Mirrors over time: few packs, and leftovers of a killed git do not block the next one.

use std::path::PathBuf;

use serde_json::{Value, json};
use stead_testkit::{Fault, GitServer, TestServer, until};

use super::{active, agent, sh, with_settings};

/// Returns the path of the only mirror.
fn mirror(server: &TestServer) -> PathBuf {
    let entries = std::fs::read_dir(server.home().join("mirrors")).unwrap().flatten().map(|entry| entry.path());
    let mut mirrors = entries.filter(|path| path.extension().is_some_and(|extension| extension == "git"));
    let (first, second) = (mirrors.next().unwrap(), mirrors.next());
    assert_eq!(second, None);
    first
}

fn packs(server: &TestServer) -> usize {
    let entries = std::fs::read_dir(mirror(server).join("objects/pack")).unwrap().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "pack")).count()
}

#[test]
fn many_packs_become_few_and_every_commit_stays() {
    let git = GitServer::start();
    let server = with_settings(&git, "fresh_seconds = 0\nmax_packs = 3\n");
    let repository = git.repository("app", &[("a", "0\n")]);
    server.agent_type("m", json!({"enabled": true, "provider": "memory", "require_workspace": true}));
    let begin = |reference: &str| {
        let context = json!({"repository_url": git.url("app"), "branch": reference});
        let session = server.session(json!({"agent_type": "m", "task": {"context": context}}));
        assert_eq!((&session["status"], &session["degraded"]), (&json!("active"), &json!(false)), "{session}");
        session
    };
    let mut commits = Vec::new();
    for number in 1..8 {
        commits.push(repository.commit(&[("a", &format!("{number}\n"))], "next"));
        begin("main");
    }
    until("too many packs", || (packs(&server) <= 3).then_some(()));
    // Everything fetched is still there: none of these sessions contacts the remote.
    let asked = git.packs();
    for (index, commit) in commits.iter().enumerate() {
        let session = begin(commit);
        let read = server.tool(&session, "read", json!({"path": "a"}));
        assert!(read.to_string().contains(&format!("{}", index + 1)), "{read}");
    }
    assert_eq!(git.packs(), asked);
}

#[test]
fn what_a_killed_git_left_does_not_block_later_sessions() {
    let git = GitServer::start();
    let server = with_settings(&git, "fresh_seconds = 0\n");
    let repository = git.repository("app", &[("a", "1\n")]);
    agent(&server, json!({}));
    active(&server, json!({"repository_url": git.url("app"), "branch": "main"}));
    let mirror_path = mirror(&server);
    let left = ["shallow.lock", "refs/heads/main.lock", "packed-refs.lock", "objects/pack/tmp_pack_XyZ", "HEAD.lock"];
    left.iter().for_each(|name| std::fs::write(mirror_path.join(name), "").unwrap());
    repository.commit(&[("a", "2\n")], "two");
    let session = active(&server, json!({"repository_url": git.url("app"), "branch": "main"}));
    assert_eq!(sh(&server, &session, "cat a"), "2");
    for name in left {
        assert!(!mirror_path.join(name).exists(), "{name}");
    }
}

#[test]
fn s9_killed_in_the_middle_of_a_fetch() {
    let git = GitServer::start();
    let mut server = with_settings(&git, "fresh_seconds = 0\n");
    // Large enough that most of the pack is written before the held end arrives.
    let noise: String = (0..200_000_u64).map(|n| format!("{:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    git.repository("app", &[("a", "1\n"), ("noise", &noise)]);
    agent(&server, json!({}));
    git.fault(Fault::Held);
    let context = json!({"repository_url": git.url("app"), "branch": "main"});
    let body = json!({"agent_type": "g", "task": {"context": context}});
    let session = server.client().post("/sessions", body).expect(201)["id"].as_str().unwrap().to_owned();
    until("half a pack", || {
        let entries = std::fs::read_dir(server.home().join("mirrors")).ok()?.flatten();
        let packs = entries.filter_map(|entry| std::fs::read_dir(entry.path().join("objects/pack")).ok()).flatten();
        packs.flatten().find(|entry| entry.metadata().is_ok_and(|found| found.len() > 100_000))
    });
    server.kill();
    git.fault(Fault::None);
    server.restart(None);
    let settled: Value = until("the session", || {
        let now = server.client().get(&format!("/sessions/{session}")).expect(200);
        (now["status"] != "provisioning").then_some(now)
    });
    assert_eq!((&settled["status"], &settled["degraded"]), (&json!("active"), &json!(false)), "{settled}");
    assert_eq!(
        sh(&server, &settled, "cat a; git status --porcelain; git fsck --no-progress && echo whole"),
        "1\nwhole"
    );
    let names = std::fs::read_dir(mirror(&server).join("objects/pack")).unwrap().flatten();
    let halves: Vec<_> = names.filter(|entry| entry.file_name().to_string_lossy().starts_with("tmp_")).collect();
    assert!(halves.is_empty(), "{halves:?}");
}
