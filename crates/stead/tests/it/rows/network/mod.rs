//! Connections of boxes, in an Internet of the test's own.

mod addresses;
mod clients;
mod first_bytes;
mod inspection;
mod lending;
mod limits;
mod names;
mod passing;
mod phases;
mod services;

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};
use stead_testkit::{Outside, ServerOptions, TestServer};

use crate::rows::boxes::native::build_init;
use crate::rows::hardening::limits::ordinary_user;

/// The kind of the boxes, and the user that runs their server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    /// Native boxes of root.
    Root,
    /// Native boxes of an ordinary user.
    Ordinary,
    /// Podman containers of root, with runc.
    Podman,
}

/// Defines `root::NAME` and `user::NAME`, each in an Internet of its own.
macro_rules! outside_cases {
    ($($case:ident),+ $(,)?) => {
        mod root {
            $(#[test] fn $case() {
                let test = concat!(module_path!(), "::", stringify!($case));
                stead_testkit::outside(test.split_once("::").unwrap().1, |outside| super::$case(outside, $crate::rows::network::User::Root));
            })+
        }
        mod user {
            $(#[test] fn $case() {
                let test = concat!(module_path!(), "::", stringify!($case));
                stead_testkit::outside(test.split_once("::").unwrap().1, |outside| super::$case(outside, $crate::rows::network::User::Ordinary));
            })+
        }
    };
}
use outside_cases;

/// Defines `podman::NAME` for cases whose programs are in the image: Python, and no curl.
macro_rules! podman_cases {
    ($($case:ident),+ $(,)?) => {
        mod podman {
            $(#[test] fn $case() {
                let test = concat!(module_path!(), "::", stringify!($case));
                stead_testkit::outside(test.split_once("::").unwrap().1, |outside| super::$case(outside, $crate::rows::network::User::Podman));
            })+
        }
    };
}
use podman_cases;

/// A server with boxes that have a network.
struct Networked {
    server: TestServer,
    provider: &'static str,
    /// Number of agent types so far.
    agent_types: AtomicU32,
    /// Keeps the programs of an ordinary user's server.
    _programs: Option<tempfile::TempDir>,
}

impl Networked {
    fn new(user: User) -> Self {
        Self::with(user, ServerOptions::default())
    }

    fn with(user: User, options: ServerOptions) -> Self {
        build_init();
        match user {
            User::Root => {
                let server = TestServer::start_with(env!("CARGO_BIN_EXE_stead"), options);
                Self { server, provider: "native", agent_types: AtomicU32::new(0), _programs: None }
            }
            User::Podman => {
                let mut options = options;
                options.env.extend(crate::rows::boxes::podman::options().env);
                let server = TestServer::start_with(env!("CARGO_BIN_EXE_stead"), options);
                Self { server, provider: "podman", agent_types: AtomicU32::new(0), _programs: None }
            }
            User::Ordinary => {
                let ordinary_user::OrdinaryServer { server, shelf, .. } = ordinary_user::server_with(options);
                Self { server, provider: "native", agent_types: AtomicU32::new(0), _programs: Some(shelf) }
            }
        }
    }

    /// Declares that the platform and the agent type allow the same, and starts a session.
    fn session(&self, network: Value) -> Value {
        self.session_of(network.clone(), network, json!({}))
    }

    fn session_of(&self, platform: Value, agent_type: Value, more: Value) -> Value {
        self.server.client().put("/platform", json!({"network": platform})).expect(200);
        let mut workspace = json!({
            "enabled": true, "provider": self.provider, "workspace_policy": "empty", "require_workspace": true,
            "network": agent_type,
        });
        workspace.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let name = format!("net{}", self.agent_types.fetch_add(1, Ordering::Relaxed));
        self.server.agent_type(&name, workspace);
        let session = self.server.session(json!({"agent_type": name}));
        assert_eq!(session["status"], "active", "{session}\n{}", self.server.log());
        session
    }

    /// Runs a command and returns its output, whether or not it succeeds.
    fn says(&self, session: &Value, command: &str) -> String {
        let answer = self.bash(session, command);
        let text = |field: &str| answer["result"][field].as_str().unwrap_or_default().to_owned();
        format!("{}{}", text("stdout"), text("stderr"))
    }

    /// Runs a command that must succeed and returns its standard output.
    fn prints(&self, session: &Value, command: &str) -> String {
        let answer = self.bash(session, command);
        assert_eq!(answer["result"]["exit_code"], 0, "{command}: {answer}\n{}", self.server.log());
        answer["result"]["stdout"].as_str().unwrap().to_owned()
    }

    fn bash(&self, session: &Value, command: &str) -> Value {
        let answer = self.server.tool(session, "bash", json!({"command": command, "timeout": 120}));
        assert_eq!(answer["ok"], true, "{answer}");
        answer
    }

    /// Runs a Python program and returns its output, whether or not it succeeds.
    fn python(&self, session: &Value, code: &str) -> String {
        self.says(session, &format!("cat > /tmp/program.py <<'END'\n{code}\nEND\npython3 /tmp/program.py"))
    }

    /// Returns the session's network as the API shows it.
    fn network(&self, session: &Value) -> Value {
        self.server.client().get(&format!("/sessions/{}/network", session["id"].as_str().unwrap())).expect(200)
    }

    /// Returns the reasons of all refusals as `host:port why`.
    fn refused(&self, session: &Value) -> Vec<String> {
        let network = self.network(session);
        let one = |refused: &Value| {
            format!("{}:{} {}", refused["host"].as_str().unwrap(), refused["port"], refused["why"].as_str().unwrap())
        };
        network["refused"].as_array().unwrap().iter().map(one).collect()
    }

    fn events(&self, session: &Value, kind: &str) -> Vec<Value> {
        crate::rows::events(&self.server, session["id"].as_str().unwrap(), kind)
    }
}

/// Python that connects and prints what comes of it.
const DIAL: &str = r#"
import errno, socket, sys
def dial(host, port, send=b"hello\n", timeout=30):
    try:
        with socket.create_connection((host, port), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(send)
            connection.shutdown(socket.SHUT_WR)
            got = b""
            while piece := connection.recv(65536):
                got += piece
            return got.decode("latin-1").strip().replace("\n", " ")
    except socket.gaierror as error:
        return "no such name"
    except OSError as error:
        # The reset may come before or while the program sends.
        name = errno.errorcode.get(error.errno, repr(error))
        return "ECONNRESET" if name in ("ENOTCONN", "EPIPE") else name
"#;

/// A rule that allows any bytes to the echo server of a host.
fn echo(host: &str) -> Value {
    json!({"host": host, "ports": [7000], "protocol": "tcp"})
}

/// Asserts that no server outside accepted a connection.
#[track_caller]
fn nobody_was_reached(outside: &Outside) {
    assert_eq!(outside.log("connections"), Vec::<String>::new());
}
