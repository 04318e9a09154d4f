//! One value, one text, one hash.
//!
//! Canonical bytes are RFC 8785 JSON (keys sorted, no spaces, numbers in one form), so anyone can recompute a hash with any
//! JSON library. Every number in Stead's state is a whole number below 2^53.

use serde::Serialize;

/// The canonical bytes of a value.
pub fn bytes<T: Serialize>(value: &T) -> Vec<u8> {
    // Serialising Stead's own state cannot fail: its maps have string keys and its numbers are finite. Were that ever broken, an
    // empty text would compare unequal to every recorded hash, which is the safe way round.
    serde_json_canonicalizer::to_vec(value).unwrap_or_default()
}

/// `blake3:` and the hash of the canonical bytes.
pub fn hash<T: Serialize>(value: &T) -> String {
    format!("blake3:{}", blake3::hash(&bytes(value)).to_hex())
}
