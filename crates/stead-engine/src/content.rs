//! Content outside the pure core: trees in the blob store, versions in the database, snapshots for
//! sessions, and inputs of model requests.
//!
//! `stead_core::content` defines the meaning of content. This module only fetches and stores it.

pub mod arguments;
pub(crate) mod bound;
pub(crate) mod load;
pub(crate) mod mcp;
pub(crate) mod request;
pub mod tree;

pub use load::judge;
pub use tree::{NewFile, TreeFile};
