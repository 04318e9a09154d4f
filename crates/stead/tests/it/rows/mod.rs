//! One black-box test per promised behaviour, named by its row: the real binary, over HTTP.

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
