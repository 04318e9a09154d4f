//! Tool calls and execs.

mod background_bash;
pub(super) mod call_bound_tool;
pub(super) mod call_tool;
pub(super) mod exec;
pub(super) mod exec_output;
pub(super) mod follow_exec;
pub(super) mod offered;
