//! The host side: starts, finds and ends boxes.
//!
//! The invariant: the box's directory names every part of a box before the part is made. So
//! [`remove`] finds all of it after a crash at any point, and touches nothing else.

mod builder;
mod client;
mod container_mounts;
mod disown;
mod doctor;
mod end;
mod end_all;
mod gate;
mod launch;
mod lent;
mod network;
mod pause;
mod port;
mod remove;
mod spare;
mod sweep;
mod tree_hash;
mod uids;

pub use client::{Connection, Finished, Followed, InputEnd};
pub use container_mounts::{mount_container_files, unmount_container_files};
pub use disown::disown;
pub use doctor::{Check, doctor};
pub use end::end_container;
pub use end_all::end_all;
pub use gate::{Gate, Guest, Switchboard, bind_limits, connect, mount_volume, unmount_volume};
pub use launch::{RunningBox, launch, restart, resume};
pub use network::furnish_container;
pub use pause::{can_freeze, freeze, stop, thaw};
pub use port::PortStream;
pub(crate) use remove::end_recorded;
pub use remove::remove;
pub use spare::{Spare, remove_spares};
pub(crate) use sweep::remove_tree_at;
pub use tree_hash::{diff_layers, hash_layers};
pub use uids::UidRanges;
