//! Every test of this crate in one binary.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a panic is how a test fails, and a skip is said aloud")]

mod archives;
mod conformance;
mod disk;
mod harness;
mod mirrors;
mod mounts;
mod patches;
mod paths;
mod properties;
mod race;
mod replay;
mod tools_edit;
mod tools_files;
mod tools_search;
