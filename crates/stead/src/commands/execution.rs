//! Programs and tools in a workspace.

mod browser;
pub(super) mod eval;
pub(super) mod exec;
mod execs;
pub(super) mod forward;
pub(super) mod mcp;
mod new_session;
pub(super) mod port;
pub(super) mod run;
pub(super) mod shell;
mod signals;
pub(super) mod tool;
pub(super) mod tools;
