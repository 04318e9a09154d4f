//! `stead-init`: process 1 of every box.
//!
//! It has one thread, one `poll` loop and no async runtime. It starts commands and keeps the start
//! and end of their output. It kills all descendants on request or at a deadline, runs the file
//! tools in short-lived children, and reaps orphans. It has no privileges: see [`crate::build`].
//! The invariant: no program in the box can block it, and all memory that it uses is bounded.

mod connection;
mod dial;
mod dispatch;
mod exec;
mod files;
mod group_events;
mod job;
mod left;
mod output;
mod ports;
mod process_tree;
mod put_all;
mod room;
mod serve;
mod shell;
mod shell_report;
mod shells;
mod socket_watch;
mod spawn;
mod supervise;

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;

use crate::affinity_view::AffinityView;
use crate::build::NetworkSockets;
use crate::cgroup::GroupEvents;
pub(crate) use dial::Dialler;
pub(crate) use serve::serve;

/// The original workspace, and the directories written since.
pub(crate) struct Compared {
    pub(crate) before: OwnedFd,
    /// Upper directories since then; `None` if the layers are not based on the original.
    pub(crate) written: Option<Vec<OwnedFd>>,
    /// Current upper directory.
    pub(crate) upper: OwnedFd,
}

/// Connection between the server and the guest.
pub(crate) enum Door {
    /// A listener, bound in a directory that the box cannot see.
    Listener(UnixListener),
    /// Process 1 connects to the server.
    Dialled(Dialler),
}

impl Door {
    pub(crate) fn as_raw_fd(&self) -> Option<RawFd> {
        match self {
            Self::Listener(listener) => Some(listener.as_raw_fd()),
            Self::Dialled(_) => None,
        }
    }
}

/// All resources of process 1 from outside of the box.
pub(crate) struct Handles {
    pub(crate) door: Door,
    /// A delegated control group, for the groups of the execs.
    pub(crate) cgroup: Option<OwnedFd>,
    /// The files in which the kernel counts events of the box's control groups.
    pub(crate) events: GroupEvents,
    /// Trees that a diff compares.
    pub(crate) compared: Option<Compared>,
    pub(crate) upper_on: UpperOn,
    pub(crate) env: BTreeMap<String, String>,
    /// Sockets that the server borrows, if the box has a network.
    pub(crate) network: Option<NetworkSockets>,
    /// Set if the CPU limit of the box is below the number of processors.
    pub(crate) affinity: Option<AffinityView>,
}

/// Filesystem of the upper directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpperOn {
    /// The box's own volume.
    Volume,
    /// A filesystem of the host, which other programs write as well.
    Host,
}
