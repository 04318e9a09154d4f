//! Layers: read-only trees that many workspaces share.
//!
//! A git checkout at a commit, an unpacked bundle or a copied mount is a layer. It is made once per
//! [`LayerKey`], serves any number of boxes as a lower layer of their overlays, and is collected
//! once it has no holder.
//!
//! Invariants:
//! * A layer under its final name is complete and never changes.
//! * A layer with a holder is never collected.
//! * A crash leaves incomplete data only in `.making`, which the next start removes.
//!
//! One server owns a store: `STEAD_HOME` is locked.

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
