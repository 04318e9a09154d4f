//! One black-box test per promised behaviour, named by its row: the real binary, over HTTP.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod agent_types;
mod durability;
mod idempotency;
mod policy;
mod postgres;
mod sessions;

use stead_testkit::{ServerOptions, TestServer};

fn server() -> TestServer {
    TestServer::start(env!("CARGO_BIN_EXE_stead"))
}

fn server_with(options: ServerOptions) -> TestServer {
    TestServer::start_with(env!("CARGO_BIN_EXE_stead"), options)
}
