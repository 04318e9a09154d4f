//! Workspaces whose tree is an overlay of read-only layers and one generation of a volume above them ([`lineage`]).
//!
//! Making one reserves a place; the box is over the layers there are when something first needs them. A snapshot freezes what was written into a
//! layer, a restore and a fork share layers, so none of them depends on how much there is. Who runs the box is another's
//! ([`Boxes`]); what happens in one is [`crate::boxed`].

mod beside;
mod boxes;
mod copies;
mod home;
mod keep;
mod lineage;
mod place;
mod ready;
mod stamp;
mod usage;
mod workspaces;

pub(crate) use boxes::{Boxes, Restart, Running};
pub(crate) use home::LayeredHome;
pub(crate) use lineage::{LayerRef, Lineage};
pub(crate) use place::{Place, limits};
pub(crate) use workspaces::Workspaces;
