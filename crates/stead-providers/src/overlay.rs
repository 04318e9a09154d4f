//! Workspaces whose tree is an overlay of read-only layers and one generation of a volume above them ([`lineage`]).
//!
//! Making one reserves a place; the box is over the layers there are when something first needs them. A snapshot freezes what was written into a
//! layer, a restore and a fork share layers, so none of them depends on how much there is. Who runs the box is another's
//! ([`Boxes`]); what happens in one is [`crate::guest`].

mod boxes;
mod copies;
mod directories;
pub(crate) mod images;
mod keep;
pub(crate) mod layer_store;
mod lineage;
mod overlay_box;
mod own_layers;
mod stamp;
mod usage;
mod warm;
mod workspaces;

pub(crate) use boxes::{Boxes, Restart, Running};
pub(crate) use directories::{Directories, limits};
pub(crate) use lineage::{LayerRef, Lineage};
pub(crate) use overlay_box::OverlayBox;
pub(crate) use workspaces::Workspaces;
