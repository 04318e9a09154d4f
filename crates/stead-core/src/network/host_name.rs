//! Host names. This is the only parser of host names in the network code.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Maximum length of a name, and of one of its labels.
const MOST_CHARACTERS: usize = 253;
const MOST_LABEL_CHARACTERS: usize = 63;

/// A host name in its only spelling: lower-case ASCII without a final dot.
///
/// Letters, digits, `-` and `_` in labels of 1 to 63 characters, at most 253 characters. A name
/// whose last label is a number is not a name, because resolvers read it as an address.
/// Internationalized names are written as A-labels (`xn--…`), so that no two names look alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

/// The reason why a text is not a host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHostName {
    #[error("a host name must not be empty")]
    Empty,
    #[error("a host name has at most {MOST_CHARACTERS} characters")]
    TooLong,
    #[error("each part of a host name between dots has 1 to {MOST_LABEL_CHARACTERS} characters")]
    Label,
    #[error(
        "a host name has only ASCII letters, digits, '-', '_' and dots: give it without scheme, port and path, and an internationalized name in its ASCII form (xn--…)"
    )]
    Character,
    #[error("the last part of a host name must not be a number: such a text is an address")]
    Numeric,
}

impl HostName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a name from the bytes of a network message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidHostName> {
        std::str::from_utf8(bytes).map_err(|_| InvalidHostName::Character)?.parse()
    }

    /// Returns true if the name has at least one more label than `parent` and ends with it.
    pub fn is_below(&self, parent: &HostName) -> bool {
        self.0.strip_suffix(parent.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.0.split('.').count()
    }
}

impl FromStr for HostName {
    type Err = InvalidHostName;

    fn from_str(text: &str) -> Result<Self, InvalidHostName> {
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() {
            return Err(InvalidHostName::Empty);
        }
        if let Some(wrong) = name.bytes().find(|byte| !is_allowed(*byte)) {
            debug_assert!(!wrong.is_ascii_alphanumeric());
            return Err(InvalidHostName::Character);
        }
        if name.len() > MOST_CHARACTERS {
            return Err(InvalidHostName::TooLong);
        }
        if name.split('.').any(|label| !(1..=MOST_LABEL_CHARACTERS).contains(&label.len())) {
            return Err(InvalidHostName::Label);
        }
        let name = name.to_ascii_lowercase();
        match name.rsplit('.').next() {
            Some(last) if is_number(last) => Err(InvalidHostName::Numeric),
            _ => Ok(Self(name)),
        }
    }
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Returns true for decimal, octal and hexadecimal numbers. `inet_aton` accepts all three, also
/// `0x` without digits.
fn is_number(label: &str) -> bool {
    match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for HostName {
    type Error = InvalidHostName;

    fn try_from(text: String) -> Result<Self, InvalidHostName> {
        text.parse()
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> String {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_spelling() {
        for (text, name) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("a_b-c.example", "a_b-c.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("1.2.3.4a", "1.2.3.4a"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(text.parse::<HostName>().unwrap().as_str(), name);
            assert_eq!(HostName::from_bytes(text.as_bytes()).unwrap().as_str(), name);
        }
    }

    #[test]
    fn nul_control_percent_unicode_lookalike_and_trailing_dot_names() {
        for text in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a..",
            "example.com..",
            "a\0.example",
            "example.com\0",
            "a\n.example",
            "a\u{7f}.example",
            "a%2e.example",
            "a%00",
            "ex\u{430}mple.com",
            "example\u{3002}com",
            "a b.example",
            "a/b",
            "a:80",
            "user@a.example",
            "[::1]",
            "::1",
            "*",
            "*.example.com",
            "b\u{fc}cher.example",
        ] {
            assert!(text.parse::<HostName>().is_err(), "{text:?}");
        }
        assert_eq!(HostName::from_bytes(b"a\xff.example"), Err(InvalidHostName::Character));
        assert_eq!("a".repeat(64).parse::<HostName>(), Err(InvalidHostName::Label));
        assert_eq!(vec!["abc"; 64].join(".").parse::<HostName>(), Err(InvalidHostName::TooLong));
        assert!(vec!["abc"; 63].join(".").parse::<HostName>().is_ok());
    }

    #[test]
    fn numeric_last_label_is_no_name() {
        for text in
            ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "example.1", "a.0X1F", "0177.1.", "a.0x"]
        {
            assert_eq!(text.parse::<HostName>(), Err(InvalidHostName::Numeric), "{text}");
        }
    }

    #[test]
    fn below_means_at_least_one_more_label() {
        let parent: HostName = "example.com".parse().unwrap();
        for (text, below) in [
            ("a.example.com", true),
            ("b.a.example.com", true),
            ("example.com", false),
            ("evilexample.com", false),
            ("example.com.evil", false),
        ] {
            assert_eq!(text.parse::<HostName>().unwrap().is_below(&parent), below, "{text}");
        }
    }
}
