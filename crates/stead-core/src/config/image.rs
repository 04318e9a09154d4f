//! Names of images.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const MAX_LENGTH: usize = 200;
const MAX_TAG: usize = 128;

/// A name that users give an imported image, in the form of registries: `tools`, `team/tools:2`,
/// `registry.example:5000/tools`.
///
/// Never an absolute path, so it cannot be confused with a directory of the host.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageName(String);

/// The error for a text that is not a valid image name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a name for an image: {reason}")]
pub struct InvalidImageName {
    text: String,
    reason: &'static str,
}

impl ImageName {
    /// The rule as a regular expression, for schemas.
    pub const PATTERN: &'static str = "^[a-z0-9]([a-z0-9._-]*[a-z0-9])?((:[0-9]{1,5})?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)+)?(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$";
    pub const MAX_LENGTH: usize = MAX_LENGTH;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ImageName {
    type Err = InvalidImageName;

    fn from_str(text: &str) -> Result<Self, InvalidImageName> {
        let invalid = |reason| InvalidImageName { text: text.chars().take(80).collect(), reason };
        if text.is_empty() || text.len() > MAX_LENGTH {
            return Err(invalid("it has 1 to 200 characters"));
        }
        let (path, tag) = match text.rsplit_once(':') {
            // The text after the last colon is a port if it contains a slash, otherwise a tag.
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (text, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(invalid(
                "a tag has 1 to 128 letters, digits, '.', '_' and '-', and begins with none of '.' and '-'",
            ));
        }
        for (number, part) in path.split('/').enumerate() {
            let host = part.split_once(':').filter(|(_, port)| number == 0 && path.contains('/') && is_port(port));
            if !is_part(host.map_or(part, |(host, _)| host)) {
                return Err(invalid("each part has lower-case letters and digits, and '.', '_' and '-' between them"));
            }
        }
        Ok(Self(text.to_owned()))
    }
}

fn is_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends =
        part.as_bytes().first().copied().is_some_and(plain) && part.as_bytes().last().copied().is_some_and(plain);
    ends && part.bytes().all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
}

fn is_port(port: &str) -> bool {
    (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_tag(tag: &str) -> bool {
    let first = tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first
        && tag.len() <= MAX_TAG
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

impl TryFrom<String> for ImageName {
    type Error = InvalidImageName;

    fn try_from(text: String) -> Result<Self, InvalidImageName> {
        text.parse()
    }
}

impl From<ImageName> for String {
    fn from(name: ImageName) -> String {
        name.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_registries() {
        for good in ["a", "tools", "team/tools:2", "registry.example:5000/a/b:V1.0", "localhost/x", "a-b_c.d"] {
            assert_eq!(good.parse::<ImageName>().map(String::from).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "/etc",
            "../x",
            "a//b",
            "a/",
            "A",
            "a:",
            "a:-x",
            "a b",
            "a@sha256:00",
            "-a",
            "a:b/c:d",
            ".",
            "a/..",
            &"a".repeat(201),
        ] {
            assert!(bad.parse::<ImageName>().is_err(), "{bad}");
        }
    }
}
