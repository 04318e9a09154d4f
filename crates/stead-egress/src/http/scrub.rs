//! Removes the values of secrets from answers.
//!
//! A search for a value and its usual encodings stops servers that repeat a request in their
//! answer, such as error pages. It does not stop a server that cooperates with the agent. The
//! replacement has the same length, so `Content-Length` and frames of other protocols stay valid.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use memchr::memmem;

use super::encodings::forms;
use super::streamed::Filter;

const REPLACEMENT: u8 = b'*';

/// Removes values from a stream of bytes. It holds back only bytes with which a value may begin.
#[derive(Clone, Default)]
pub(super) struct Scrubber {
    patterns: Vec<Vec<u8>>,
    held: Vec<u8>,
}

impl Scrubber {
    pub(super) fn new<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        Self { patterns: values.flat_map(forms).collect(), held: Vec::new() }
    }

    fn clean(&self, bytes: &mut [u8]) {
        for pattern in &self.patterns {
            let found: Vec<usize> = memmem::find_iter(bytes, pattern).collect();
            for at in found {
                bytes[at..at + pattern.len()].fill(REPLACEMENT);
            }
        }
    }

    /// Removes values from all headers.
    pub(super) fn clean_headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            let mut bytes = value.as_bytes().to_vec();
            self.clean(&mut bytes);
            if bytes != value.as_bytes()
                && let Ok(cleaned) = HeaderValue::from_bytes(&bytes)
            {
                *value = cleaned;
            }
        }
    }

    /// Returns the length of the longest end of `bytes` with which a pattern begins.
    fn open_end(&self, bytes: &[u8]) -> usize {
        let of = |pattern: &Vec<u8>| {
            let longest = (pattern.len() - 1).min(bytes.len());
            (1..=longest).rev().find(|length| bytes.ends_with(&pattern[..*length])).unwrap_or(0)
        };
        self.patterns.iter().map(of).max().unwrap_or(0)
    }
}

impl Filter for Scrubber {
    fn take(&mut self, piece: &[u8]) -> Option<Bytes> {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(piece);
        self.clean(&mut bytes);
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
    use super::*;

    const VALUE: &str = "canary-7f3a9c51";

    fn scrubbed(pieces: &[&[u8]]) -> Vec<u8> {
        let mut scrubber = Scrubber::new(std::iter::once(VALUE));
        let mut all = Vec::new();
        for piece in pieces {
            all.extend_from_slice(&scrubber.take(piece).unwrap());
        }
        all.extend_from_slice(&scrubber.rest());
        all
    }

    #[test]
    fn echoed_secret_is_scrubbed_at_every_border() {
        let text = format!("before {VALUE} after");
        for border in 0..=text.len() {
            let (one, two) = text.as_bytes().split_at(border);
            let cleaned = scrubbed(&[one, two]);
            assert_eq!(String::from_utf8(cleaned).unwrap(), format!("before {} after", "*".repeat(VALUE.len())));
        }
        let single: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert!(!String::from_utf8(scrubbed(&single)).unwrap().contains(VALUE));
    }

    #[test]
    fn ordinary_bytes_are_not_held_back() {
        let mut scrubber = Scrubber::new(std::iter::once(VALUE));
        assert_eq!(scrubber.take(b"data: hello\n\n").unwrap(), &b"data: hello\n\n"[..]);
        // The first characters of the value wait for the rest.
        assert_eq!(scrubber.take(b"x can").unwrap(), &b"x "[..]);
        assert_eq!(scrubber.take(b"not").unwrap(), &b"cannot"[..]);
        assert_eq!(scrubber.rest(), Bytes::new());
    }

    #[test]
    fn headers_are_scrubbed_too() {
        let mut headers = HeaderMap::new();
        headers.insert("x-echo", HeaderValue::from_str(&format!("Bearer {VALUE}")).unwrap());
        Scrubber::new(std::iter::once(VALUE)).clean_headers(&mut headers);
        assert_eq!(headers["x-echo"], format!("Bearer {}", "*".repeat(VALUE.len())));
    }
}
