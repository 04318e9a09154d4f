//! Stead over HTTP.
//!
//! A request makes one trip: `router.rs` (the table of contents) → a handler in `routes/` (parse, one
//! engine call, to wire) → the engine. Only `problem.rs` maps refusals to the wire, and all have one
//! shape. `auth.rs` checks tokens, `host.rs` checks `Host` and `Origin`, and `quota.rs` limits
//! concurrent requests. `serve.rs`, `connections.rs` and `connection.rs` own sockets and timeouts.
//!
//! This crate makes no decision about sessions and stores nothing, so it can be killed at any moment.

mod answering;
mod app;
mod auth;
mod body;
mod conditions;
mod config;
mod connection;
mod connections;
mod download;
mod exec_stream;
mod headers;
mod host;
mod json;
mod mcp;
mod metrics;
mod openapi;
mod path;
mod problem;
mod query;
mod quota;
mod request_log;
mod router;
mod routes;
mod serve;
mod stream;
mod stream_turns;
mod tools;
mod unread;
mod upload;
mod wire;

pub use config::ServerConfig;
pub use openapi::openapi;
pub use serve::serve;
