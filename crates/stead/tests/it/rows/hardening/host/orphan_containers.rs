//! No container outlives its session.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use stead_testkit::podman::{self, BUSYBOX};
use stead_testkit::{TestServer, until};

use crate::rows::boxes::podman::{bash, box_session, containers_of, options, with_podman};
use crate::rows::server_with;

/// The longest time that a request is held, in case the test fails before it releases the request.
const MOST_HELD: Duration = Duration::from_secs(60);

/// A proxy in front of Podman's socket that can hold the next inspection of a container.
struct Relay {
    _directory: tempfile::TempDir,
    socket: PathBuf,
    state: Arc<(Mutex<Seen>, Condvar)>,
}

#[derive(Default)]
struct Seen {
    armed: bool,
    held: bool,
    removed: usize,
    created: usize,
}

impl Relay {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("relay.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let state: Arc<(Mutex<Seen>, Condvar)> = Arc::default();
        let shared = state.clone();
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = shared.clone();
                std::thread::spawn(move || relay(client, &state));
            }
        });
        Self { _directory: directory, socket, state }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Seen) -> T) -> T {
        let worked = work(&mut self.state.0.lock().unwrap());
        self.state.1.notify_all();
        worked
    }
}

/// Forwards one request and its answer. The server uses a new connection for each request.
fn relay(mut client: UnixStream, state: &(Mutex<Seen>, Condvar)) -> Option<()> {
    let mut head = vec![0; 64 << 10];
    let count = client.read(&mut head).ok()?;
    let line = String::from_utf8_lossy(&head[..count]).lines().next()?.to_owned();
    if line.starts_with("GET") && line.contains("/containers/stead-") {
        let mut seen = state.0.lock().unwrap();
        if std::mem::take(&mut seen.armed) {
            seen.held = true;
            drop(state.1.wait_timeout_while(seen, MOST_HELD, |seen| seen.held).unwrap());
        }
    }
    let mut podman = UnixStream::connect(podman::shared().directory().join("podman.sock")).ok()?;
    podman.write_all(&head[..count]).ok()?;
    let (mut from, mut to) = (client.try_clone().ok()?, podman.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    let _ = std::io::copy(&mut podman, &mut client);
    let mut seen = state.0.lock().unwrap();
    seen.removed += usize::from(line.starts_with("DELETE") && line.contains("/containers/"));
    seen.created += usize::from(line.starts_with("POST") && line.contains("/containers/create"));
    Some(())
}

fn removed(server: &TestServer, session: &Value) {
    until("the removal of the workspace", || {
        let now = server.client().get(&format!("/sessions/{}", session["id"].as_str().unwrap())).expect(200);
        (now["workspace"]["status"] == "removed").then_some(())
    });
}

#[test]
fn a_start_that_runs_when_the_session_is_closed_leaves_no_container() {
    let relay = Relay::start();
    let options = options().env("PODMAN_BASE_URL", &format!("unix://{}", relay.socket.display()));
    let server = server_with(options);
    let session = box_session(&server, json!({}));
    let id = session["id"].as_str().unwrap();
    bash(&server, &session, "echo one > a");
    let other = server.session(json!({"agent_type": "p"}));
    let container = containers_of(&session).pop().unwrap();
    // The box has died, so the next call starts another one. It first inspects the old container.
    let (before, gone) = relay.with(|seen| {
        seen.armed = true;
        (seen.created, seen.removed)
    });
    assert!(podman::shared().run(&["kill", &container]).status.success());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = format!("/sessions/{id}/files/a");
            // These answers are ignored, because the session is closed meanwhile.
            until("a request that starts the box", || {
                let _ = server.client().try_send("GET", &path, &[], None);
                relay.with(|seen| !seen.armed).then_some(())
            });
        });
        until("the start's look at the old container", || relay.with(|seen| seen.held).then_some(()));
        // The inspection is answered after the old container was removed; the close waits for the
        // start.
        scope.spawn(|| server.client().delete(&format!("/sessions/{id}")));
        until("the removal of the old container", || relay.with(|seen| seen.removed > gone).then_some(()));
        relay.with(|seen| seen.held = false);
    });
    removed(&server, &session);
    assert_eq!(containers_of(&session), Vec::<String>::new());
    // Controls: the start did create another container, and a session that was not closed keeps its
    // own.
    assert!(relay.with(|seen| seen.created) > before, "the start under way made no container");
    assert_eq!(containers_of(&other).len(), 1);
    assert_eq!(bash(&server, &other, "echo here")["stdout"], "here\n");
}

#[test]
fn a_container_that_belongs_to_no_workspace_is_removed_at_the_next_start() {
    let mut server = with_podman();
    let session = box_session(&server, json!({}));
    let own = containers_of(&session).pop().unwrap();
    let workspace = session["workspace"]["id"].as_str().unwrap();
    let instance = own.strip_prefix("stead-").unwrap().strip_suffix(&format!("-{workspace}")).unwrap();
    // The same id with another last character: no workspace has it.
    let nowhere = format!("{}{}", &workspace[..workspace.len() - 1], if workspace.ends_with('0') { '1' } else { '0' });
    let make = |instance: &str| {
        let (name, label) = (format!("stead-{instance}-{nowhere}"), format!("stead.instance={instance}"));
        let workspace = format!("stead.workspace={nowhere}");
        let args =
            ["create", "--network=none", "--name", &name, "--label", &label, "--label", &workspace, BUSYBOX, "true"];
        let made = podman::shared().run(&args);
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        name
    };
    let (orphan, foreign) = (make(instance), make(&format!("{instance}x")));
    server.restart(None);
    let has = |name: &String| podman::shared().containers().contains(name);
    until("the end of the orphaned container", || (!has(&orphan)).then_some(()));
    // Controls: another server's container and one in use stay.
    assert!(has(&foreign) && has(&own));
    assert_eq!(bash(&server, &session, "echo here")["stdout"], "here\n");
    assert!(podman::shared().run(&["rm", &foreign]).status.success());
}
