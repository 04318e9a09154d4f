//! Linux isolation. This crate creates, limits, serves and removes boxes.
//!
//! Two programs share this crate. The server uses [`launch`], [`RunningBox`], [`Connection`] and
//! [`remove`]. `stead-init` builds the box ([`build`]) and then becomes its process 1. They share
//! [`protocol`] and the [`OwnerRecord`].
//!
//! The invariants of the crate: a box is either isolated as described or not started. The box's
//! directory names each resource on the host before the resource is created. All `unsafe` code of
//! the crate is in `sys`.
//!
//! Boxes do not use Landlock. It could forbid access to files, TCP ports, abstract sockets and
//! processes outside the box, but the mount, network and pid namespaces of a box contain none.

mod affinity_view;
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

pub use build::{BOX_ADDRESS, NetworkSockets, Reserve, processors};
pub use cgroup::{Held, enforceable};
pub use error::{BoxError, Primitive, Refused};
pub use host::{
    Check, Connection, Finished, Followed, Gate, Guest, InputEnd, PortStream, RunningBox, Spare, Switchboard,
    UidRanges, bind_limits, can_freeze, connect, diff_layers, disown, doctor, end_all, end_container, freeze,
    furnish_container, hash_layers, launch, mount_container_files, mount_volume, remove, remove_spares, restart,
    resume, stop, thaw, unmount_container_files, unmount_volume,
};
pub use keeper::{ensure_keeper, keep};
pub use record::{OwnerRecord, ProcessMark};
pub use spec::{
    AGENT_ID, Access, Bound, BoxSpec, HOME, Ids, ImageShape, LayerSpec, Limits, Network, Preparation, RANGE_LENGTH,
    TRUST, Volume, WORKSPACE,
};

/// Returns true if this process runs as root. Only then do boxes get a private uid range and a
/// volume of limited size.
pub fn runs_as_root() -> bool {
    rustix::process::geteuid().is_root()
}
