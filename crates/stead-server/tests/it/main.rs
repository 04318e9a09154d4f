//! Black-box tests of the server: real sockets, a real store, the memory provider.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod auth;
mod bad_requests;
mod client;
mod document;
mod events;
mod harness;
mod idempotency;
mod identity;
mod page;
mod registry;
mod sessions;
mod shutdown;
mod slow_clients;
mod uploads;
