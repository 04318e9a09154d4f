//! Stead's HTTP server.
//!
//! A request passes through `router.rs` (the route table), a handler in `routes/` and one call of
//! the engine. The handler parses the request and converts the result to its API type. Only
//! `problem.rs` maps errors to responses, and all have one form. `auth.rs` checks tokens, `host.rs`
//! checks `Host` and `Origin`, and `quota.rs` limits requests. `serve.rs` and
//! `listener/` own sockets and timeouts. `extract/` parses requests, and `respond/` builds
//! responses that are more than one JSON value.
//!
//! This crate makes no decision about sessions and stores nothing, so it can be killed at any time.

mod app;
mod auth;
mod config;
mod extract;
mod host;
mod idempotency_keys;
mod listener;
mod mcp;
mod metrics;
mod openapi;
mod problem;
mod quota;
mod request_log;
mod respond;
mod router;
mod routes;
mod serve;
mod tools;
mod wire;

pub use config::ServerConfig;
pub use openapi::openapi;
pub use serve::serve;
