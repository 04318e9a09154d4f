//! Builds a box, from the outside in: `stead-init launch`. In a box that a container runtime built,
//! `stead-init guest` ([`guest`]) becomes process 1, and `stead-init tree` ([`mount_container`])
//! assembles the files. `stead-init hash` ([`hash_tree`]) reads the layers of a snapshot.
//!
//! It is a single-threaded program. [`launch`] runs on the host and makes the control groups, the
//! volume and the namespaces. The child continues in [`inside`], enters the new root, drops all
//! privileges ([`lockdown`]) and becomes [`crate::init`].
//!
//! The invariant: the child does nothing before its ids are mapped and the record names it. It
//! serves no request before it has dropped all privileges and verified that. Any refusal ends both
//! processes.

mod allowances;
mod container_mounts;
mod detached_mount;
mod devices;
mod etc;
mod filter;
mod guest;
mod ids;
mod inside;
mod launch;
mod layers;
mod lockdown;
mod masks;
mod network;
mod reserve;
mod root;
mod shown_resources;
mod tree_hash;
mod volume;
mod volume_image;

pub use allowances::{OPEN_FILES, PSEUDO_TERMINALS, SHARED_MESSAGE_QUEUE_BYTES, SHARED_QUEUED_SIGNALS};
pub use container_mounts::{
    COMPARED_TREES, CONTAINER_MOUNTS, ContainerMountOrder, HOST_MOUNTS, MountTarget, mount_container,
};
pub use etc::resolver;
pub use filter::seccomp_profile;
pub use guest::{GATE, HandOver, INIT, guest};
pub(crate) use guest::{GATE_SOCKET, MOST_HANDED_OVER};
pub use launch::{Order, Report, launch};
pub(crate) use lockdown::{close_child, listen_to_affinity};
pub use masks::HIDDEN as HIDDEN_OF_PROC;
pub(crate) use network::furnish_namespace;
pub use network::{BOX_ADDRESS, CAPTURE, NetworkSockets, RESOLVER};
pub use reserve::Reserve;
pub use shown_resources::{processors, texts as shown_texts};
pub use tree_hash::{DiffOrder, DiffReport, HashReport, diff_trees, hash_tree};
pub(crate) use volume::mounted as mount_volume;
