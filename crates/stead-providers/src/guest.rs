//! Workspaces whose files and processes are in a box with `stead-init` as its first process, for
//! all providers with boxes.
//!
//! A provider implements [`GuestBox`]: how to reach its boxes and where the server keeps their
//! data. This module implements the workspace contract on top. The server never touches the files
//! from outside by path: `stead-init` works on them inside the box.

mod arguments;
mod command;
mod evaluate;
mod execs;
mod git;
mod guest_box;
mod mux_client;
mod output_cache;
mod reply;
mod scratch;
pub(crate) mod tars;
mod workspace;

pub(crate) use guest_box::{Fill, GuestBox, HostMounts, Looked, MountOrder, stamp_of};
pub(crate) use scratch::{Scratch, ScratchDirectory};
pub(crate) use tars::{TarStore, patch_of, send};
pub(crate) use workspace::GuestWorkspace;

use stead_box::Held;
use stead_core::capability::LimitKind;
use stead_core::tool::ToolName;

use crate::contract::error::ProviderError;

/// The tools that every box supports.
pub(crate) const TOOLS: &[ToolName] = &[
    ToolName::Ls,
    ToolName::Read,
    ToolName::Write,
    ToolName::Edit,
    ToolName::Glob,
    ToolName::Grep,
    ToolName::Rm,
    ToolName::Git,
    ToolName::Bash,
    ToolName::Python,
    ToolName::Eval,
];

/// Runs blocking work on a thread for blocking calls.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProviderError> + Send + 'static,
) -> Result<T, ProviderError> {
    // The work panicked or the server is stopping: no other outcome is known.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(ProviderError::Interrupted))
}

/// Converts the enforced limits to the contract's kinds.
pub(crate) fn limit_kinds(held: Held) -> Vec<LimitKind> {
    let kinds = [
        (held.cpu, LimitKind::Cpu),
        (held.memory, LimitKind::Memory),
        (held.disk, LimitKind::Disk),
        (held.pids, LimitKind::Pids),
    ];
    kinds.into_iter().filter(|(holds, _)| *holds).map(|(_, kind)| kind).collect()
}
