//! Building a box, from the outside in: `stead-init launch`; and `stead-init guest` ([`guest`]), where somebody else has built it,
//! over files that `stead-init tree` ([`tree`]) has put together.
//!
//! One single-threaded program, read top to bottom: [`launch`] runs on the host and makes the groups, the volume and the namespaces; the
//! child continues in [`inside`], enters the new root, gives up every right ([`lockdown`]) and becomes [`crate::init`].
//! The invariant: the child does nothing before its ids are mapped and the record names it, and serves nothing before everything has
//! been given up and that has been verified. Any refusal ends both.

mod devices;
mod etc;
mod filter;
mod guest;
mod ids;
mod image;
mod inside;
mod launch;
mod layers;
mod lockdown;
mod masks;
mod reserve;
mod root;
mod tree;
mod trees;
mod volume;

pub use filter::seccomp_profile;
pub(crate) use guest::GATE_SOCKET;
pub use guest::{GATE, HandOver, INIT, guest};
pub use launch::{Order, Report, launch};
pub(crate) use lockdown::close_child;
pub use masks::HIDDEN as HIDDEN_OF_PROC;
pub use reserve::Reserve;
pub use trees::{ON_THE_HOST, PLACES, TREES, TreeOrder, TreeTo, tree};
pub(crate) use volume::mounted as mount_volume;
