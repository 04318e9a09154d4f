//! The command line for people and for scripts: the real binary, a real server, exit codes and
//! output.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod blobs;
mod commands;
mod content;
mod demo;
mod errors;
mod eval;
mod execs;
mod files;
mod follow;
mod help;
mod images;
mod json;
pub(crate) mod kit;
mod mistakes;
mod offline;
mod rewind;
mod server;
mod stories;
pub(crate) mod terminal;
mod watched;
