//! Placeholders: the texts that a box sees in the place of secrets.

use std::fmt;

use crate::{Name, SessionId};

pub const PLACEHOLDER_PREFIX: &str = "stead-ph-";
/// Bytes of the derived part.
const BYTES: usize = 20;
pub const PLACEHOLDER_LENGTH: usize = PLACEHOLDER_PREFIX.len() + 2 * BYTES;

/// A text that stands for a secret in one session. It is derived and never stored, the same after a
/// restart, and means nothing in another session.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Placeholder(String);

/// The key that placeholders are derived with.
#[derive(Clone)]
pub struct PlaceholderKey([u8; 32]);

impl PlaceholderKey {
    /// Derives the key from key material of the server.
    pub fn derive(material: &[u8]) -> Self {
        Self(blake3::derive_key("stead 2026-11 placeholders of secrets", material))
    }

    pub fn placeholder(&self, session: SessionId, name: &Name) -> Placeholder {
        // Neither text contains a NUL character, so no two pairs have the same input.
        let hash = blake3::keyed_hash(&self.0, format!("{session}\0{name}").as_bytes());
        let digits = hash.to_hex();
        Placeholder(format!("{PLACEHOLDER_PREFIX}{}", &digits[..2 * BYTES]))
    }
}

impl fmt::Debug for PlaceholderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(key)")
    }
}

impl Placeholder {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Placeholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_belongs_to_one_session_and_one_secret() {
        let key = PlaceholderKey::derive(b"server");
        let (one, two) = (SessionId::from_bits(1), SessionId::from_bits(2));
        let (a, b): (Name, Name) = ("a".parse().unwrap(), "b".parse().unwrap());
        let first = key.placeholder(one, &a);
        assert_eq!(first, PlaceholderKey::derive(b"server").placeholder(one, &a));
        assert_eq!(first.as_str().len(), PLACEHOLDER_LENGTH);
        for other in
            [key.placeholder(two, &a), key.placeholder(one, &b), PlaceholderKey::derive(b"x").placeholder(one, &a)]
        {
            assert_ne!(first, other);
        }
    }
}
