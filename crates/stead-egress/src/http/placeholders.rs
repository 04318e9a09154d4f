//! Finds placeholders where they must not be.
//!
//! A placeholder is worth nothing, so one in a path or a body does no harm by itself. It shows that
//! a program sends its secrets to a place that they are not for.

use bytes::Bytes;
use memchr::memmem;
use stead_core::secret::{PLACEHOLDER_LENGTH, PLACEHOLDER_PREFIX};

use super::encodings::forms;
use super::streamed::Filter;

/// Looks for placeholders in a stream of bytes. No complete one passes.
pub(super) struct Finder {
    /// Encoded forms of the prefix. They do not occur by accident, so the rest is not checked.
    encoded: Vec<Vec<u8>>,
    held: Vec<u8>,
}

impl Finder {
    pub(super) fn new() -> Self {
        let encoded = forms(PLACEHOLDER_PREFIX).into_iter().filter(|form| form != PLACEHOLDER_PREFIX.as_bytes());
        Self { encoded: encoded.collect(), held: Vec::new() }
    }

    /// Returns true if the bytes contain a placeholder, plain or encoded.
    pub(super) fn finds(&self, bytes: &[u8]) -> bool {
        let plain = memmem::find_iter(bytes, PLACEHOLDER_PREFIX).any(|at| {
            let whole = bytes.get(at..at + PLACEHOLDER_LENGTH);
            whole.is_some_and(|whole| whole[PLACEHOLDER_PREFIX.len()..].iter().all(u8::is_ascii_hexdigit))
        });
        plain || self.encoded.iter().any(|form| memmem::find(bytes, form).is_some())
    }

    /// Returns the length of the end of `bytes` with which a placeholder may begin.
    fn open_end(&self, bytes: &[u8]) -> usize {
        let start = bytes.len().saturating_sub(PLACEHOLDER_LENGTH - 1);
        let plain = (start..bytes.len()).find(|at| {
            let (prefix, rest) = bytes[*at..].split_at(PLACEHOLDER_PREFIX.len().min(bytes.len() - at));
            PLACEHOLDER_PREFIX.as_bytes().starts_with(prefix) && rest.iter().all(u8::is_ascii_hexdigit)
        });
        let encoded = self.encoded.iter().map(|form| {
            let longest = (form.len() - 1).min(bytes.len());
            (1..=longest).rev().find(|length| bytes.ends_with(&form[..*length])).unwrap_or(0)
        });
        plain.map_or(0, |at| bytes.len() - at).max(encoded.max().unwrap_or(0))
    }
}

impl Filter for Finder {
    fn take(&mut self, piece: &[u8]) -> Option<Bytes> {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(piece);
        if self.finds(&bytes) {
            return None;
        }
        self.held = bytes.split_off(bytes.len() - self.open_end(&bytes));
        Some(bytes.into())
    }

    fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.held).into()
    }

    fn holds(&self) -> bool {
        !self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    fn placeholder() -> String {
        format!("{PLACEHOLDER_PREFIX}{}", "0a".repeat(20))
    }

    #[test]
    fn a_placeholder_is_found_at_every_border() {
        let text = format!("{{\"key\": \"{}\"}}", placeholder());
        for border in 0..=text.len() {
            let mut finder = Finder::new();
            let (one, two) = text.as_bytes().split_at(border);
            let first = finder.take(one);
            assert!(first.is_none() || finder.take(two).is_none(), "{border}");
            assert!(first.is_none_or(|bytes| bytes.len() <= border.min(9)), "{border}");
        }
        let encoded = base64::engine::general_purpose::STANDARD.encode(format!("user:{}", placeholder()));
        assert!(Finder::new().take(encoded.as_bytes()).is_none());
    }

    #[test]
    fn other_texts_pass_whole() {
        for text in ["stead-ph-", "a stead-ph-example is a placeholder", "stead-ph-0a0a", "nothing", ""] {
            let mut finder = Finder::new();
            let mut passed = finder.take(text.as_bytes()).unwrap().to_vec();
            passed.extend_from_slice(&finder.rest());
            assert_eq!(passed, text.as_bytes());
        }
    }
}
