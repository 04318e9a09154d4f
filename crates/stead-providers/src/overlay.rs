//! Workspaces whose tree is an overlay of read-only layers and one writable generation of a volume
//! ([`lineage`]).
//!
//! Creating a workspace only reserves its directories. The box starts over the current layers at
//! the first operation that needs it. A snapshot freezes the written files into a layer. Restores
//! and forks share layers. So the cost of these operations does not depend on the size of the tree.
//! [`Boxes`] runs the boxes; [`crate::guest`] works inside them.

mod boxes;
mod copies;
mod directories;
mod host_directory;
pub(crate) mod images;
mod keep;
pub(crate) mod layer_store;
mod lineage;
mod overlay_box;
mod own_layers;
mod setup_layers;
mod setup_store;
mod stamp;
mod usage;
mod warm;
mod workspaces;

pub(crate) use boxes::{Boxes, Restart, Running};
pub(crate) use directories::{Directories, limits};
pub(crate) use lineage::{LayerRef, Lineage};
pub(crate) use overlay_box::OverlayBox;
pub(crate) use workspaces::Workspaces;
