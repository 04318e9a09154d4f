//! The name of a blob. A value of this type always consists of 64 hexadecimal digits, so it is safe
//! in a path.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "sha256:";

/// A SHA-256 hash. Its text is `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is \"sha256:\" and 64 lower-case hexadecimal digits")]
pub struct InvalidDigest;

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(bytes))
    }

    pub(super) fn finish(hasher: Sha256) -> Self {
        Self(hasher.finalize().into())
    }

    /// 64 lower-case hexadecimal digits, without the prefix.
    pub fn to_hex(self) -> String {
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|digit| b"0123456789abcdef"[digit as usize] as char)
            .collect()
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let digits = text.strip_prefix(PREFIX).ok_or(InvalidDigest)?.as_bytes();
        if digits.len() != 64 {
            return Err(InvalidDigest);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

/// Refuses upper case, so that each hash has one text.
fn value(digit: u8) -> Result<u8, InvalidDigest> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(InvalidDigest),
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, InvalidDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_text() {
        let text = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        assert_eq!(Digest::of(b"hello").to_string(), text);
        assert_eq!(text.parse::<Digest>(), Ok(Digest::of(b"hello")));
    }

    #[test]
    fn anything_else_is_refused() {
        let digits = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let long = format!("sha256:{digits}0");
        let upper = format!("sha256:{}", digits.to_uppercase());
        let sneaky = format!("sha256:../{}", &digits[3..]);
        let wide = format!("sha256:é{}", &digits[2..]);
        for text in ["", "sha256:", digits, "sha256:2cf2", "md5:00", &long, &upper, &sneaky, &wide] {
            assert_eq!(text.parse::<Digest>(), Err(InvalidDigest), "{text}");
        }
    }
}
