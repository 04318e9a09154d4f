//! One black-box test per promised behaviour, named by its row of `docs/requirements.md`: the real
//! binary over HTTP.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails, in its helpers too")]

mod boxes;
mod content;
mod files;
mod git;
mod hardening;
mod network;
mod ports;
mod secrets;
mod sessions;

pub(crate) use boxes::native::build_init;
use boxes::podman;

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer, until};

fn server() -> TestServer {
    TestServer::start(env!("CARGO_BIN_EXE_stead"))
}

fn server_with(options: ServerOptions) -> TestServer {
    TestServer::start_with(env!("CARGO_BIN_EXE_stead"), options)
}

/// Returns a session's events of one type.
fn events(server: &TestServer, session: &str, kind: &str) -> Vec<Value> {
    let path = format!("/sessions/{session}/events?limit=500");
    let page = server.client().send("GET", &path, &[("accept", "application/json")], None).expect(200);
    page["items"].as_array().unwrap().iter().filter(|event| event["type"] == kind).cloned().collect()
}

/// Waits until provisioning has ended and returns the session.
#[track_caller]
fn settled(server: &TestServer, session: &str) -> Value {
    until("the end of provisioning", || {
        let session = server.client().get(&format!("/sessions/{session}")).expect(200);
        (session["status"] != "provisioning").then_some(session)
    })
}

/// Location of a session's files: the server's memory, a native box or a Podman container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    Memory,
    Disk,
    Container,
}

impl Files {
    fn provider(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => {
                build_init();
                "native"
            }
            Self::Container => "podman",
        }
    }

    /// A server that supports this backend.
    fn server(self) -> TestServer {
        match self {
            Self::Memory | Self::Disk => server(),
            Self::Container => podman::with_podman(),
        }
    }
}

/// Runs each test in memory and in a native box, because both make the same promises about files.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod memory {
            $(#[test]
            fn $test() {
                super::$test(crate::rows::Files::Memory);
            })+
        }

        mod disk {
            $(#[test]
            fn $test() {
                super::$test(crate::rows::Files::Disk);
            })+
        }
    };
}
use on_both;

/// Runs each test in a Podman container.
macro_rules! on_podman {
    ($($test:ident),+ $(,)?) => {
        mod container {
            $(#[test]
            fn $test() {
                super::$test(crate::rows::Files::Container);
            })+
        }
    };
}
use on_podman;

/// Runs each test where commands run: in a native box and in a Podman container.
macro_rules! on_boxes {
    ($($test:ident),+ $(,)?) => {
        mod disk {
            $(#[test]
            fn $test() {
                super::$test(crate::rows::Files::Disk);
            })+
        }
        crate::rows::on_podman!($($test),+);
    };
}
use on_boxes;

/// Runs each test on every backend.
macro_rules! on_all {
    ($($test:ident),+ $(,)?) => {
        crate::rows::on_both!($($test),+);
        crate::rows::on_podman!($($test),+);
    };
}
use on_all;

/// A session of an agent type `w` with every tool.
fn writer(server: &TestServer, files: Files) -> Value {
    server.agent_type("w", json!({"enabled": true, "provider": files.provider()}));
    server.session(json!({"agent_type": "w"}))
}

/// Puts bytes at a path, which may carry a query.
#[track_caller]
fn put(server: &TestServer, session: &Value, path: &str, bytes: &[u8]) {
    let path = format!("/sessions/{}/files/{path}", session["id"].as_str().unwrap());
    let reply = server.client().bytes("PUT", &path, &[], bytes).reply();
    assert!([200, 201].contains(&reply.status), "{}", reply.text);
}
