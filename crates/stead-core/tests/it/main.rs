//! Tests of the rules through the public interface.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic is how a test fails")]

mod config;
mod content;
mod fold;
mod network;
mod network_properties;
mod plan;
mod policy;
mod purity;
mod remote;
mod repository;
mod scenario;
mod spec;
