//! Content outside the pure core: trees in the blob store, versions in the database, reading a version for a session, building what a model is sent.
//!
//! What content means is `stead_core::content`; here it is only fetched and kept.

pub mod arguments;
pub(crate) mod bound;
pub(crate) mod load;
pub(crate) mod mcp;
pub(crate) mod request;
pub mod tree;

pub use load::judge;
pub use tree::{NewFile, TreeFile};
