//! Canonical bytes and hashes of values.
//!
//! Canonical bytes are RFC 8785 JSON: sorted keys, no spaces, one form per number. Any JSON library
//! can therefore recompute a hash. The numbers of Stead's own fields are integers.

use serde::Serialize;

use crate::ContentHash;

/// The canonical bytes of a value.
pub fn bytes<T: Serialize>(value: &T) -> Vec<u8> {
    // Serialising Stead's state cannot fail: its maps have string keys and its numbers are finite.
    // If it failed nevertheless, the hash of the empty text would not match any recorded hash.
    serde_json_canonicalizer::to_vec(value).unwrap_or_default()
}

/// Returns `blake3:` and the hash of the canonical bytes.
pub fn hash<T: Serialize>(value: &T) -> String {
    ContentHash::blake3(*blake3::hash(&bytes(value)).as_bytes()).to_string()
}
