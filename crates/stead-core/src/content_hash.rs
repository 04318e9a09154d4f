//! Hashes of bytes and of trees.
//!
//! The text of a hash is `sha256:`, `blake3:` or `sparse:` and 64 lower-case hexadecimal digits.
//! Each hash has exactly one text, so texts can be compared, and the digits are safe as a file
//! name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashAlgorithm {
    /// For bytes of files and blobs, and for trees.
    Sha256,
    /// For canonical values and chains.
    Blake3,
    /// For a file that is mostly holes: SHA-256 over its size and its blocks that are not zero.
    Sparse,
}

impl HashAlgorithm {
    const ALL: [Self; 3] = [Self::Sha256, Self::Blake3, Self::Sparse];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Blake3 => "blake3",
            Self::Sparse => "sparse",
        }
    }
}

/// A hash and its algorithm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash {
    algorithm: HashAlgorithm,
    bytes: [u8; 32],
}

/// The error for a text that is not a hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a content hash of the form sha256:<64 hex digits>")]
pub struct InvalidContentHash {
    text: String,
}

impl ContentHash {
    /// The SHA-256 hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::sha256(Sha256::digest(bytes).into())
    }

    pub const fn sha256(bytes: [u8; 32]) -> Self {
        Self { algorithm: HashAlgorithm::Sha256, bytes }
    }

    pub const fn blake3(bytes: [u8; 32]) -> Self {
        Self { algorithm: HashAlgorithm::Blake3, bytes }
    }

    pub const fn sparse(bytes: [u8; 32]) -> Self {
        Self { algorithm: HashAlgorithm::Sparse, bytes }
    }

    /// Parses a hash of this algorithm. Refuses hashes of other algorithms.
    pub fn parse(text: &str, algorithm: HashAlgorithm) -> Result<Self, InvalidContentHash> {
        let digits = text.strip_prefix(algorithm.as_str()).and_then(|rest| rest.strip_prefix(':'));
        let bytes = digits.and_then(from_hex);
        let invalid = || InvalidContentHash { text: text.chars().take(100).collect() };
        bytes.map(|bytes| Self { algorithm, bytes }).ok_or_else(invalid)
    }

    pub const fn algorithm(&self) -> HashAlgorithm {
        self.algorithm
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// 64 lower-case hexadecimal digits, without the algorithm.
    pub fn to_hex(self) -> String {
        let digits = self.bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.map(|digit| b"0123456789abcdef"[digit as usize] as char).collect()
    }
}

fn from_hex(digits: &str) -> Option<[u8; 32]> {
    let digits = digits.as_bytes();
    let mut bytes = [0; 32];
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit_value(pair[0])? << 4 | digit_value(pair[1])?;
    }
    Some(bytes)
}

/// Refuses upper case, so that each hash has one text.
fn digit_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

/// An incremental SHA-256 hash.
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> ContentHash {
        ContentHash::sha256(self.0.finalize().into())
    }

    /// Like [`Self::finish`], for the updates that [`HashAlgorithm::Sparse`] names.
    pub fn finish_sparse(self) -> ContentHash {
        ContentHash::sparse(self.0.finalize().into())
    }
}

impl FromStr for ContentHash {
    type Err = InvalidContentHash;

    fn from_str(text: &str) -> Result<Self, InvalidContentHash> {
        let algorithm = HashAlgorithm::ALL.into_iter().find(|algorithm| text.starts_with(algorithm.as_str()));
        Self::parse(text, algorithm.unwrap_or(HashAlgorithm::Sha256))
    }
}

impl TryFrom<String> for ContentHash {
    type Error = InvalidContentHash;

    fn try_from(text: String) -> Result<Self, InvalidContentHash> {
        text.parse()
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> String {
        hash.to_string()
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.algorithm.as_str())?;
        self.bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    #[test]
    fn a_hash_has_one_text() {
        let text = format!("sha256:{DIGITS}");
        let mut hasher = Hasher::default();
        hasher.update(b"hel");
        hasher.update(b"lo");
        assert_eq!(hasher.finish(), ContentHash::of(b"hello"));
        assert_eq!(ContentHash::of(b"hello").to_string(), text);
        assert_eq!(text.parse(), Ok(ContentHash::of(b"hello")));
        assert_eq!(ContentHash::of(b"hello").to_hex(), DIGITS);
        let other: ContentHash = format!("blake3:{DIGITS}").parse().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((other.algorithm(), other.to_string()), (HashAlgorithm::Blake3, format!("blake3:{DIGITS}")));
        assert_ne!(other, ContentHash::of(b"hello"));
    }

    #[test]
    fn upper_case_a_wrong_length_and_an_unknown_algorithm_are_refused() {
        let refused = [
            String::new(),
            "sha256:".to_owned(),
            "sha256:2cf2".to_owned(),
            DIGITS.to_owned(),
            format!("sha256:{DIGITS}0"),
            format!("sha256:{}", &DIGITS[1..]),
            format!("sha256:{}", DIGITS.to_uppercase()),
            format!("SHA256:{DIGITS}"),
            format!("sha256:../{}", &DIGITS[3..]),
            format!("sha256:é{}", &DIGITS[2..]),
            format!("sha256{DIGITS}"),
            format!("md5:{DIGITS}"),
            format!("sha512:{DIGITS}"),
            format!("blake3:{}", DIGITS.to_uppercase()),
        ];
        for text in refused {
            assert!(text.parse::<ContentHash>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_hash_of_another_algorithm_is_refused() {
        let text = format!("blake3:{DIGITS}");
        assert!(ContentHash::parse(&text, HashAlgorithm::Sha256).is_err());
        assert!(ContentHash::parse(&text, HashAlgorithm::Blake3).is_ok());
    }
}
