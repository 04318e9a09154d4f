//! Every test of this crate in one binary.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod archives;
mod budget;
mod change_sets;
mod conformance;
mod disk;
mod harness;
mod mirrors;
mod mounts;
mod patches;
mod patches_random;
mod paths;
mod properties;
mod race;
mod replay;
mod same_answers;
mod tars_like_gnu;
mod tools;
