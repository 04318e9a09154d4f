//! Tool calls and execs.

pub(super) mod call_bound_tool;
pub(super) mod call_tool;
pub(super) mod exec;
pub(super) mod follow_exec;
pub(super) mod offered;
