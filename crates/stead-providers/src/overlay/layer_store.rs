//! Layers: read-only trees that many workspaces share.
//!
//! A git checkout at a commit, an unpacked bundle, a copied mount is a layer: made once per [`LayerKey`], shown to any number of boxes as the
//! lower part of an overlay, and collected when nobody holds it any more. The invariants: a layer under its name is complete and never
//! changes again; a layer that somebody holds is never collected; a crash leaves at most something in `.making`, which the next
//! start removes. One server owns a store: `STEAD_HOME` is locked.

mod collect;
mod draft;
mod flush;
mod holders;
mod key;
mod label;
mod report;
mod store;

pub use collect::{Retention, Usage};
pub use draft::{LayerDraft, LayerSlot};
pub use key::LayerKey;
pub use report::{CheckoutWarnings, ImageReport, LayerReport};
pub use store::{Layer, LayerStore};
