//! Linux isolation: how a box is made, spoken to, limited and removed.
//!
//! Two programs share this crate. The server uses [`launch`], [`RunningBox`], [`Connection`] and [`remove`]; `stead-init` builds the box
//! ([`build`]) and then is its process 1. They meet in [`protocol`] and in the [`OwnerRecord`].
//!
//! The invariant of the crate: a box is either as closed as described or not started, and whatever is made on the host is named in the box's
//! directory first. All of the project's `unsafe` is in `sys`.
//!
//! Deliberately absent: Landlock. What it could forbid, files, TCP ports, abstract sockets and signals of others, is not there to begin
//! with: the mount, network and pid namespaces of a box hold only its own.

pub mod build;
mod cgroup;
mod error;
mod host;
mod init;
mod keeper;
pub mod protocol;
mod record;
mod spec;
mod sys;

pub use build::Reserve;
pub use cgroup::{Held, enforceable};
pub use error::{BoxError, Primitive, Refused};
pub use host::{
    Check, Connection, Finished, Followed, Gate, Guest, InputEnd, RunningBox, Spare, Switchboard, UidRanges,
    bind_limits, connect, disown, doctor, end_all, end_container, launch, lay_tree, mount_volume, remove,
    remove_spares, restart, resume, take_off_tree, unmount_volume,
};
pub use keeper::{ensure_keeper, keep};
pub use record::{OwnerRecord, ProcessMark};
pub use spec::{
    AGENT_ID, Access, Bound, BoxSpec, HOME, Ids, ImageShape, LayerSpec, Limits, Preparation, RANGE_LENGTH, Volume,
    WORKSPACE,
};

/// Whether boxes get a private uid range and a limited volume here: only root can give them.
pub fn runs_as_root() -> bool {
    rustix::process::geteuid().is_root()
}
