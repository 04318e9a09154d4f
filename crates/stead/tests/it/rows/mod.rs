//! One black-box test per promised behaviour, named by its row: the real binary, over HTTP.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod agent_types;
mod bundles;
mod clones;
mod durability;
mod files;
mod hostile;
mod idempotency;
mod mounts;
mod native;
mod policy;
mod postgres;
mod sessions;
mod snapshots;
mod tools;

use serde_json::{Value, json};
use stead_testkit::{ServerOptions, TestServer};

fn server() -> TestServer {
    TestServer::start(env!("CARGO_BIN_EXE_stead"))
}

fn server_with(options: ServerOptions) -> TestServer {
    TestServer::start_with(env!("CARGO_BIN_EXE_stead"), options)
}

/// A session of an agent type `w` with every tool, in memory.
fn writer(server: &TestServer) -> Value {
    server.agent_type("w", json!({"enabled": true, "provider": "memory"}));
    server.session(json!({"agent_type": "w"}))
}

/// Puts bytes at a path, which may carry a query.
#[track_caller]
fn put(server: &TestServer, session: &Value, path: &str, bytes: &[u8]) {
    let path = format!("/sessions/{}/files/{path}", session["id"].as_str().unwrap());
    let reply = server.client().bytes("PUT", &path, &[], bytes).reply();
    assert!([200, 201].contains(&reply.status), "{}", reply.text);
}
