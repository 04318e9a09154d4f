//! Paths of files in a content tree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::parse::read_as_text;

/// The path of a file in a content tree: names of ASCII letters, digits, `.`, `_`, `~` and `-`,
/// joined by `/`. It never starts with `/`, and no name is `.` or `..`. It is therefore safe in a
/// URL and on any file system without escaping.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentPath(String);

impl ContentPath {
    /// The rule as a regular expression, for schemas. `.` and `..` are refused in addition.
    pub const PATTERN: &'static str = "^[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+){0,31}$";
    pub const MAX_BYTES: usize = 1024;
    pub const MAX_DEPTH: usize = 32;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path components from the root down.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The extension of the last component, in lower case.
    pub fn extension(&self) -> Option<String> {
        let name = self.0.rsplit('/').next()?;
        name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, ending)| ending.to_ascii_lowercase())
    }
}

/// The error for a text that is not a valid content path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a content path: {reason}")]
pub struct InvalidPath {
    text: String,
    reason: &'static str,
}

impl FromStr for ContentPath {
    type Err = InvalidPath;

    fn from_str(text: &str) -> Result<Self, InvalidPath> {
        let invalid = |reason| Err(InvalidPath { text: text.chars().take(120).collect(), reason });
        if text.is_empty() || text.len() > Self::MAX_BYTES {
            return invalid("it has 1 to 1024 bytes");
        }
        if text.starts_with('/') {
            return invalid("it is relative to the content's root");
        }
        if text.split('/').count() > Self::MAX_DEPTH {
            return invalid("it has at most 32 names");
        }
        for name in text.split('/') {
            if name.is_empty() {
                return invalid("a name is empty");
            }
            if name == "." || name == ".." {
                return invalid("'.' and '..' are not names");
            }
            if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte)) {
                return invalid("names hold only ASCII letters, digits, '.', '_', '~' and '-'");
            }
        }
        Ok(Self(text.to_owned()))
    }
}

impl TryFrom<String> for ContentPath {
    type Error = InvalidPath;

    fn try_from(text: String) -> Result<Self, InvalidPath> {
        text.parse()
    }
}

impl From<ContentPath> for String {
    fn from(path: ContentPath) -> String {
        path.0
    }
}

impl fmt::Display for ContentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

read_as_text!(ContentPath);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_names_are_refused() {
        for good in ["a", "prompts/packs/default.json", "a.b_c~d-e", "...", "tools/.hidden"] {
            assert!(good.parse::<ContentPath>().is_ok(), "{good}");
        }
        let deep = "a/".repeat(32) + "a";
        for bad in ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a b", "é", "a\0b", "a\\b", "a:b", &deep] {
            assert!(bad.parse::<ContentPath>().is_err(), "{bad}");
        }
    }

    #[test]
    fn endings() {
        let ending = |text: &str| text.parse::<ContentPath>().unwrap().extension();
        assert_eq!(ending("a/B.PNG").as_deref(), Some("png"));
        assert_eq!((ending("a.b/c"), ending(".json")), (None, None));
    }
}
