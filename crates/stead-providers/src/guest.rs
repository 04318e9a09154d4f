//! Workspaces whose files and processes are in a box with `stead-init` as its first process, for
//! all providers with boxes.
//!
//! A provider implements [`GuestBox`]: how to reach its boxes and where the server keeps their
//! data. This module implements the workspace contract on top. The server never touches the files
//! from outside by path: `stead-init` works on them inside the box.

pub(crate) mod arguments;
mod command;
mod evaluate;
mod execs;
mod git;
mod guest_box;
mod mux_client;
mod output_cache;
mod ports;
mod reply;
mod scratch;
mod shell;
pub(crate) mod tars;
pub(crate) mod trust;
mod workspace;

pub(crate) use guest_box::{Fill, GuestBox, HostMounts, Looked, MountOrder, SetupLayers, stamp_of};
pub(crate) use scratch::{Scratch, ScratchDirectory};
pub(crate) use tars::{TarStore, in_frame, patch_of, read_patch, send};
pub(crate) use workspace::GuestWorkspace;

use std::collections::BTreeMap;

use stead_box::Held;
use stead_core::capability::LimitKind;
use stead_core::config::ResourceLimits;
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
    ToolName::Move,
    ToolName::Copy,
    ToolName::Mkdir,
    ToolName::Stat,
    ToolName::MultiEdit,
    ToolName::Git,
    ToolName::Bash,
    ToolName::Python,
    ToolName::Eval,
    ToolName::Shell,
    ToolName::BashOutput,
    ToolName::BashKill,
];

/// Returns variables that tell programs how many processors the limit is worth: `nproc` and OpenMP
/// read the first, Go the second. Without them these programs count the processors of the host on a
/// kernel where process 1 cannot answer `sched_getaffinity`.
pub(crate) fn processor_env(limits: &ResourceLimits) -> BTreeMap<String, String> {
    let shown = stead_box::processors(limits.cpu.as_ref().map(|cpu| cpu.millis()));
    let variables = ["OMP_NUM_THREADS", "GOMAXPROCS"].map(str::to_owned);
    shown.into_iter().flat_map(|shown| variables.clone().map(|name| (name, shown.to_string()))).collect()
}

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
