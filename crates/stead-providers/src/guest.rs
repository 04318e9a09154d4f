//! Workspaces whose files and processes are in a box with `stead-init` as its first process, whoever made the box.
//!
//! A provider says how its boxes are reached and where the server keeps what belongs to them ([`BoxHome`]); everything a workspace promises
//! is then here, once. Files are never touched from outside by path: `stead-init` does what is to be done, inside the box.

mod arguments;
mod box_home;
mod command;
mod evaluate;
mod execs;
mod git;
mod mux_client;
mod output_cache;
mod reply;
mod scratch;
pub(crate) mod tars;
mod workspace;

pub(crate) use box_home::{BoxHome, Fill, HostMounts, Looked, MountOrder, stamp_of};
pub(crate) use scratch::{Scratch, ScratchDirectory};
pub(crate) use tars::{TarStore, patch_of, send};
pub(crate) use workspace::GuestWorkspace;

use stead_box::Held;
use stead_core::capability::LimitKind;
use stead_core::tool::ToolName;

use crate::contract::error::ProviderError;

/// What can be done in every box.
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

/// Runs what waits for the kernel or for a box where it holds up nobody.
pub(crate) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProviderError> + Send + 'static,
) -> Result<T, ProviderError> {
    // It panicked, or the server is going down: there is no outcome to report but this.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(ProviderError::Interrupted))
}

/// The limits that hold, in the words of the contract.
pub(crate) fn limit_kinds(held: Held) -> Vec<LimitKind> {
    let kinds = [
        (held.cpu, LimitKind::Cpu),
        (held.memory, LimitKind::Memory),
        (held.disk, LimitKind::Disk),
        (held.pids, LimitKind::Pids),
    ];
    kinds.into_iter().filter(|(holds, _)| *holds).map(|(_, kind)| kind).collect()
}
