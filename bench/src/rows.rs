//! The rows of the table, one file each.

pub(crate) mod replay;
pub(crate) mod sessions;
pub(crate) mod tool_calls;
