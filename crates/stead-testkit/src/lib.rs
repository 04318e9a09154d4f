//! For tests only: a real `stead serve` as a child process, spoken to over HTTP.
//!
//! Every [`TestServer`], when it goes out of scope, proves the session it served: every journal replays to its state, and nothing
//! is left of the server on the host. So every black-box test is also a replay test and a census.

mod client;
pub mod postgres;
mod server;

pub use client::{Client, Reply};
pub use server::{ServerOptions, TestServer};
