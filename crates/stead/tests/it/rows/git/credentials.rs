//! G5: a credential is sent to its own host only and appears nowhere else.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use stead_testkit::{Fault, GitServer, TestServer, until};

use super::{active, agent, failed, git, git_ok, sh, start};
use crate::rows::server;

pub(in crate::rows) const CANARY: &str = "kanari3nvogel-t0ken";

/// A server with a token for this git server, which requires it.
pub(in crate::rows) fn with_token(git: &GitServer) -> TestServer {
    let mut server = server();
    let token = server.home().join("git-token");
    std::fs::write(&token, format!("{CANARY}\n")).unwrap();
    let text = format!(
        "[git]\nfresh_seconds = 0\n[[git_credentials]]\nhost = '{}'\nusername = 'bot'\ntoken_file = '{}'\nover_http = true\n",
        git.host(),
        token.display()
    );
    std::fs::write(server.home().join("stead.toml"), text).unwrap();
    server.restart(None);
    super::allow(&server, git);
    git.require("bot", CANARY);
    server
}

/// Returns the files below a directory that contain the token, except the operator's token file.
pub(super) fn found_below(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        for entry in std::fs::read_dir(&path).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                left.push(entry.path());
            } else if kind.is_file() && entry.file_name() != "git-token" && holds_canary(&entry.path()) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

/// Searches the data extents only, because a box's volume is mostly holes.
fn holds_canary(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let mut at = 0;
    while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(data)).unwrap();
        let mut bytes = vec![0; usize::try_from(end - data).unwrap()];
        let read = std::os::unix::fs::FileExt::read_at(&file, &mut bytes, data).unwrap_or(0);
        if found_in(&bytes[..read]) {
            return true;
        }
        at = end;
    }
    false
}

fn found_in(bytes: &[u8]) -> bool {
    // A full comparison at every byte would take minutes in an unoptimised build.
    let first = CANARY.as_bytes()[0];
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == first) {
        if rest[at..].starts_with(CANARY.as_bytes()) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// Searches every process's arguments and environment for the token until `stop` is set.
fn watch_processes(stop: Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let mut seen = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
                for file in ["cmdline", "environ"] {
                    let bytes = std::fs::read(entry.path().join(file)).unwrap_or_default();
                    if found_in(&bytes) {
                        seen.push(format!("{}/{file}: {}", entry.path().display(), String::from_utf8_lossy(&bytes)));
                    }
                }
            }
        }
        seen
    })
}

#[test]
fn g5_no_trace_after_clone_commit_push_failure_and_crash() {
    let git_server = GitServer::start();
    let repository = git_server.repository("app", &[("a", "1\n")]);
    git_server.repository("lib", &[("l", "lib\n")]);
    repository.git(&["submodule", "--quiet", "add", "../lib", "lib"]);
    repository.commit(&[], "with a submodule");
    let mut server = with_token(&git_server);
    agent(&server, json!({"git": {"submodules": true}}));
    let stop = Arc::new(AtomicBool::new(false));
    let watching = watch_processes(stop.clone());

    let session = active(&server, json!({"repository_url": git_server.url("app"), "branch": "main"}));
    assert_eq!(
        sh(
            &server,
            &session,
            "cat .git/config lib/.git/config | grep -c url; cat lib/l; env | grep -c -i token || true"
        ),
        "3\nlib\n0"
    );
    git_ok(&server, &session, "checkout", &["-b", "agent/x"]);
    sh(&server, &session, "echo 2 > a");
    git_ok(&server, &session, "commit", &["-a", "-m", "two"]);
    git_ok(&server, &session, "push", &[]);
    assert_eq!(repository.remote("agent/x"), sh(&server, &session, "git rev-parse HEAD"));

    // The server repeats the credentials in its answer and no longer accepts the token.
    git_server.require("bot", "another");
    let refused = git(&server, &session, "push", &[]);
    assert_eq!(refused["error"]["code"], "git_unauthorised", "{refused}");
    assert!(!refused.to_string().contains(CANARY), "{refused}");
    let (code, message) = failed(&start(&server, json!({"repository_url": git_server.url("app")})));
    assert_eq!(code, "git_unauthorised", "{message}");
    assert!(message.contains("the configured credential was offered"), "{message}");

    let audit = server.client().get("/audit?type=credential_used&limit=100").expect(200);
    let uses = audit["items"].as_array().unwrap();
    assert!(uses.iter().any(|entry| entry.to_string().contains("push")) && uses.len() >= 3, "{audit}");
    assert!(!audit.to_string().contains(CANARY));

    let inside = sh(
        &server,
        &session,
        &format!("grep -r {} /workspace /tmp /home /proc/*/environ 2>/dev/null | head -1", &CANARY[..8]),
    );
    assert_eq!(inside, "", "found in the box");
    // Kill the server in the middle of a fetch.
    git_server.require("bot", CANARY);
    git_server.fault(Fault::Silent);
    let id = session["id"].as_str().unwrap().to_owned();
    let body = json!({"agent_type": "g", "task": {"context": {"repository_url": git_server.url("app")}}});
    let asked_before = git_server.requests().len();
    let second = server.client().post("/sessions", body).expect(201);
    // The host has received the request and does not answer it.
    until("the fetch asks the host", || (git_server.requests().len() > asked_before).then_some(()));
    server.kill();
    stop.store(true, Ordering::Relaxed);
    let seen = watching.join().unwrap();
    assert!(seen.is_empty(), "{seen:?}");
    assert_eq!(found_below(server.home()), Vec::<String>::new());
    git_server.fault(Fault::None);
    server.restart(None);
    assert_eq!(server.client().get(&format!("/sessions/{id}")).expect(200)["status"], "active");
    let second = format!("/sessions/{}", second["id"].as_str().unwrap());
    until("the second session is provisioned", || {
        (server.client().get(&second).expect(200)["status"] != "provisioning").then_some(())
    });
    assert_eq!(found_below(server.home()), Vec::<String>::new());
}

#[test]
fn g5_the_token_goes_to_no_other_host() {
    let mine = GitServer::start();
    mine.repository("app", &[("a", "1\n")]);
    let server = with_token(&mine);
    let other = GitServer::start();
    other.repository("app", &[("a", "1\n")]);
    other.require("bot", CANARY);
    server.client().put("/platform", json!({"allowed_git_hosts": ["127.0.0.1", "localhost"]})).expect(200);
    agent(&server, json!({}));
    let (code, _) = failed(&start(&server, json!({"repository_url": other.url("app")})));
    assert_eq!(code, "git_unauthorised", "the same address at another port is another host");
    mine.fault(Fault::Redirect(format!("http://{}", other.host())));
    let (code, _) = failed(&start(&server, json!({"repository_url": mine.url("app")})));
    assert_eq!(code, "git_redirected");
    assert!(other.requests().iter().all(|request| request.authorization.is_none()), "{:?}", other.requests());
}
