//! The command line as a person and as a script meet it: the real binary, a real server, exit codes and texts.
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
