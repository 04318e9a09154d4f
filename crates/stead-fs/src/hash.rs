//! SHA-256 hashes of a file's bytes and of a whole tree.

mod content_hash;
pub(crate) mod tree_hash;

pub(crate) use content_hash::Hasher;
pub use content_hash::{Digest, InvalidDigest};
