//! The rows of the table, one file each.

pub(crate) mod admission;
pub(crate) mod boxes;
pub(crate) mod digest;
pub(crate) mod eval;
pub(crate) mod huge_file;
pub(crate) mod materialize;
pub(crate) mod memory;
pub(crate) mod memory_operations;
pub(crate) mod podman;
pub(crate) mod provision;
pub(crate) mod replay;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod setup;
pub(crate) mod snapshots;
pub(crate) mod tool_calls;
