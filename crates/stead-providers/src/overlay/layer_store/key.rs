//! The key of a layer.

use std::fmt;

use stead_fs::ContentHash;

/// A key for the content of a layer: equal keys, equal trees. It is also the layer's directory
/// name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerKey(String);

impl LayerKey {
    /// `kind` is a readable word of lower-case letters (`git`, `bundle`); the parts are everything
    /// the tree depends on.
    pub fn of(kind: &'static str, parts: &[&[u8]]) -> Self {
        let mut bytes = Vec::new();
        for part in std::iter::once(kind.as_bytes()).chain(parts.iter().copied()) {
            // Prefix each part with its length, so that different lists never give the same bytes.
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        Self(format!("{kind}-{}", ContentHash::of(&bytes).to_hex()))
    }

    /// Parses a key from the store's own files; `None` if it is invalid.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (kind, hex) = name.rsplit_once('-')?;
        let plain = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_lowercase());
        let digest = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        (plain && digest).then(|| Self(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The kind given to [`Self::of`].
    pub fn kind(&self) -> &str {
        self.0.split('-').next().unwrap_or_default()
    }
}

impl fmt::Display for LayerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_parts_and_nothing_else() {
        let key = |parts: &[&[u8]]| LayerKey::of("git", parts);
        assert_eq!(key(&[b"a", b"b"]), key(&[b"a", b"b"]));
        assert_ne!(key(&[b"ab"]), key(&[b"a", b"b"]));
        assert_ne!(key(&[b"a", b""]), key(&[b"a"]));
        assert_ne!(LayerKey::of("bundle", &[b"a"]), key(&[b"a"]));
        assert_eq!(LayerKey::parse(key(&[b"a"]).as_str()), Some(key(&[b"a"])));
        for wrong in ["", "git", "git-", "../x-00", "git-zz", ".making", ".holders"] {
            assert_eq!(LayerKey::parse(wrong), None, "{wrong}");
        }
    }
}
