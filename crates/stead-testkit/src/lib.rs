//! For tests only: starts a real `stead serve` as a child process and talks to it over HTTP.
//!
//! Dropping a [`TestServer`] verifies its sessions: every journal replays to its state, and nothing
//! of the server is left on the host. So every black-box test is also a replay test and a leak
//! test.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a panic is how a test fails, and a failed test prints its log"
)]

mod client;
mod event_stream;
mod git_server;
mod lfs_server;
mod outside;
pub mod podman;
pub mod postgres;
pub mod registry;
mod server;
mod wait;

pub use client::{Client, RawReply, Reply};
pub use event_stream::{EventStream, StreamEvent};
pub use git_server::{Fault, GitRequest, GitServer, Repository};
pub use lfs_server::{LfsFault, pointer, sha256};
pub use outside::{Outside, outside};
pub use server::{ServerOptions, TestServer};
pub use wait::until;
