//! Every test of this crate in one binary.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

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
mod tars_like_gnu;
mod tools_edit;
mod tools_files;
mod tools_patch;
mod tools_search;
