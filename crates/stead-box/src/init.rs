//! `stead-init`: process 1 of every box.
//!
//! One thread, one `poll` loop, no runtime. It starts commands, keeps the ends of their output, ends every descendant when it is told to or
//! a deadline passes, runs the file tools in short-lived children, and reaps whatever the box leaves behind. It holds no right at all: see
//! [`crate::build`]. The invariant: nothing the box does can make it wait, and nothing it keeps grows without a bound.

mod answer;
mod connection;
mod dial;
mod exec;
mod files;
mod group_events;
mod job;
mod output;
mod put_all;
mod room;
mod serve;
mod socket_watch;
mod spawn;
mod supervise;
mod tree;

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;

use crate::cgroup::GroupEvents;
pub(crate) use dial::Dialler;
pub(crate) use serve::serve;

/// What the workspace was, and where it has been written since.
pub(crate) struct Compared {
    pub(crate) before: OwnedFd,
    /// The uppers since then; `None` if the workspace does not stand on what it was.
    pub(crate) written: Option<Vec<OwnedFd>>,
    /// Where it is written now.
    pub(crate) upper: OwnedFd,
}

/// How the server comes in.
pub(crate) enum Door {
    /// Bound in a directory that the box cannot see.
    Listener(UnixListener),
    /// It does not: process 1 calls it.
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

/// All that process 1 has of the world outside.
pub(crate) struct Handles {
    pub(crate) door: Door,
    /// A cgroup of its own, for groups below it.
    pub(crate) cgroup: Option<OwnedFd>,
    /// The files in which the kernel counts events of the box's control groups.
    pub(crate) events: GroupEvents,
    /// The trees a diff looks at.
    pub(crate) compared: Option<Compared>,
    pub(crate) upper_on: UpperOn,
    pub(crate) env: BTreeMap<String, String>,
}

/// The filesystem that the workspace is written on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpperOn {
    /// A volume of the box's own.
    Volume,
    /// A filesystem of the host, which others write as well.
    Host,
}
