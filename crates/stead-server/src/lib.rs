//! Stead's HTTP server.
//!
//! A request passes through `router.rs` (the route table), a handler in `routes/` and one call of
//! the engine. The handler parses the request and converts the result to its API type. Only
//! `problem.rs` maps errors to responses, and all have one form. `auth.rs` checks tokens, `host.rs`
//! checks `Host` and `Origin`, and `quota.rs` limits concurrent requests. `serve.rs`,
//! `connections.rs` and `connection.rs` own sockets and timeouts.
//!
//! This crate makes no decision about sessions and stores nothing, so it can be killed at any time.

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
