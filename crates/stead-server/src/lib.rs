//! Stead over HTTP.
//!
//! A request makes one trip: `router.rs` (the table of contents) → a handler in `routes/` (parse, one engine call, to wire) → the engine. Every
//! refusal, whoever makes it, leaves as one shape, mapped in `problem.rs` and nowhere else. Who may ask is decided in `auth.rs`, through which door in
//! `host.rs`, how much at once in `quota.rs`; `serve.rs`, `connections.rs` and `connection.rs` own sockets and time.
//!
//! This crate decides nothing about sessions and keeps nothing: it can be killed at any moment.

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
mod schema;
mod serve;
mod stream;
mod tools;
mod unread;
mod upload;
mod wire;

pub use config::ServerConfig;
pub use openapi::openapi;
pub use serve::serve;
