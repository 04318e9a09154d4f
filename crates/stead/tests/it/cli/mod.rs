//! The command line for people and for scripts: the real binary, a real server, exit codes and
//! output.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

pub(crate) mod kit;
mod output;
mod servers;
pub(crate) mod terminal;
mod workspaces;
