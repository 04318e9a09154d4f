//! Linux isolation: makes, limits, serves and removes boxes.
//!
//! Two programs share this crate. The server uses [`launch`], [`RunningBox`], [`Connection`] and
//! [`remove`]. `stead-init` builds the box ([`build`]) and then becomes its process 1. They share
//! [`protocol`] and the [`OwnerRecord`].
//!
//! The invariant of the crate: a box is either isolated as described or not started, and the box's
//! directory names everything on the host before it is made. All `unsafe` code of the crate is in
//! `sys`.
//!
//! Landlock is absent on purpose. It could forbid access to files, TCP ports, abstract sockets and
//! signals of others. The mount, network and pid namespaces of a box contain only its own.

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
    bind_limits, connect, disown, doctor, end_all, end_container, launch, mount_container_files, mount_volume, remove,
    remove_spares, restart, resume, unmount_container_files, unmount_volume,
};
pub use keeper::{ensure_keeper, keep};
pub use record::{OwnerRecord, ProcessMark};
pub use spec::{
    AGENT_ID, Access, Bound, BoxSpec, HOME, Ids, ImageShape, LayerSpec, Limits, Preparation, RANGE_LENGTH, Volume,
    WORKSPACE,
};

/// Returns true if boxes get a private uid range and a limited volume. Both need root.
pub fn runs_as_root() -> bool {
    rustix::process::geteuid().is_root()
}
