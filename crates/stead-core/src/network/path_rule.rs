//! Rules about HTTP paths.
//!
//! A path has one strict reading. A server behind the judged connection might decode, merge or
//! resolve parts of a path, so every path for which that matters is refused instead of guessed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const MOST_CHARACTERS: usize = 1024;

/// A pattern of paths: `/repos/acme/*/issues`, `/v1/**`.
///
/// `*` stands for any characters within one segment. `**` is only valid as the last segment, and
/// stands for one or more segments.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathRule(String);

/// The reason why a text is not a path rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPathRule {
    #[error("a path begins with '/'")]
    NotAbsolute,
    #[error("a path rule has at most {MOST_CHARACTERS} characters")]
    TooLong,
    #[error("'**' is only valid as the last part of a path")]
    DeepWildcard,
    #[error("a path rule has no query, no fragment, no space and only ASCII characters")]
    Character,
    #[error(transparent)]
    Unclear(#[from] PathUnclear),
}

/// The reason why a path has more than one reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathUnclear {
    #[error("the path does not begin with '/'")]
    NotAbsolute,
    #[error("the path has a part '.' or '..'")]
    DotSegment,
    #[error("the path has an empty part ('//')")]
    EmptySegment,
    #[error("the path has a backslash, or an encoded slash, backslash or NUL")]
    EncodedSeparator,
    #[error("the path has a '%' without two hexadecimal digits")]
    BadEncoding,
    #[error("the path has a character that is not printable ASCII")]
    Character,
}

/// A path whose segments mean the same to every reader. Unreserved characters are decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestPath {
    segments: Vec<String>,
    encoded_slash: bool,
}

impl RequestPath {
    /// Reads the path of a request. A query is cut off.
    pub fn read(target: &str) -> Result<Self, PathUnclear> {
        let path = target.split('?').next().unwrap_or_default();
        let rest = path.strip_prefix('/').ok_or(PathUnclear::NotAbsolute)?;
        let parts: Vec<&str> = rest.split('/').collect();
        let mut encoded_slash = false;
        let mut segments = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            if part.is_empty() && index + 1 < parts.len() {
                return Err(PathUnclear::EmptySegment);
            }
            let (segment, slash) = decode(part)?;
            if matches!(segment.as_str(), "." | "..") {
                return Err(PathUnclear::DotSegment);
            }
            // Some servers cut parameters off before they resolve dot segments ("/..;x/").
            if segment.split(';').next().is_some_and(|bare| matches!(bare, "." | "..")) {
                return Err(PathUnclear::DotSegment);
            }
            encoded_slash |= slash;
            segments.push(segment);
        }
        // With an encoded slash, dot segments could hide between encoded slashes.
        let hidden = |segment: &String| {
            let lower = segment.to_ascii_lowercase();
            lower.contains("%2f") && lower.split("%2f").any(|part| matches!(part, "" | "." | ".."))
        };
        if encoded_slash && segments.iter().any(hidden) {
            return Err(PathUnclear::DotSegment);
        }
        Ok(Self { segments, encoded_slash })
    }

    /// Returns true if a segment has an encoded slash (`/@scope%2fname`).
    pub fn has_encoded_slash(&self) -> bool {
        self.encoded_slash
    }
}

/// Decodes the unreserved characters of a segment. The flag tells whether it has an encoded slash.
fn decode(part: &str) -> Result<(String, bool), PathUnclear> {
    let bytes = part.as_bytes();
    let (mut text, mut slash, mut at) = (String::with_capacity(part.len()), false, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'%' => {
                let digits = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
                let hex = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
                let hex = hex.ok_or(PathUnclear::BadEncoding)?;
                let byte = u8::from_str_radix(hex, 16).map_err(|_| PathUnclear::BadEncoding)?;
                match byte {
                    b'\\' | 0 => return Err(PathUnclear::EncodedSeparator),
                    // A second decoding would turn "%252f" into a slash.
                    b'%' => return Err(PathUnclear::BadEncoding),
                    b'/' => {
                        slash = true;
                        text.push_str("%2f");
                    }
                    byte if byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte) => text.push(byte as char),
                    _ => text.push_str(&part[at..at + 3].to_ascii_uppercase()),
                }
                at += 3;
            }
            b'\\' => return Err(PathUnclear::EncodedSeparator),
            byte if byte.is_ascii_graphic() && byte != b'#' => {
                text.push(byte as char);
                at += 1;
            }
            _ => return Err(PathUnclear::Character),
        }
    }
    Ok((text, slash))
}

impl PathRule {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn matches(&self, path: &RequestPath) -> bool {
        let Some(pattern) = self.0.strip_prefix('/') else { return false };
        let mut pattern: Vec<&str> = pattern.split('/').collect();
        let deep = pattern.last() == Some(&"**");
        if deep {
            pattern.pop();
        }
        let enough = match deep {
            true => path.segments.len() > pattern.len(),
            false => path.segments.len() == pattern.len(),
        };
        enough && pattern.iter().zip(&path.segments).all(|(pattern, segment)| segment_matches(pattern, segment))
    }
}

/// Matches one segment. Tries the last `*` again with one more character, so the time is bounded by
/// the product of the lengths.
fn segment_matches(pattern: &str, segment: &str) -> bool {
    let (pattern, segment) = (pattern.as_bytes(), segment.as_bytes());
    let (mut p, mut s, mut retry) = (0, 0, None);
    while s < segment.len() {
        if pattern.get(p) == Some(&b'*') {
            retry = Some((p, s));
            p += 1;
        } else if pattern.get(p) == Some(&segment[s]) {
            p += 1;
            s += 1;
        } else if let Some((star, from)) = retry {
            retry = Some((star, from + 1));
            p = star + 1;
            s = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

impl FromStr for PathRule {
    type Err = InvalidPathRule;

    fn from_str(text: &str) -> Result<Self, InvalidPathRule> {
        if text.len() > MOST_CHARACTERS {
            return Err(InvalidPathRule::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte)) {
            return Err(InvalidPathRule::Character);
        }
        let rest = text.strip_prefix('/').ok_or(InvalidPathRule::NotAbsolute)?;
        let parts: Vec<&str> = rest.split('/').collect();
        if parts.iter().rev().skip(1).any(|part| part.contains("**"))
            || parts.last().is_some_and(|last| last.contains("**") && *last != "**")
        {
            return Err(InvalidPathRule::DeepWildcard);
        }
        // The rule is compared with decoded segments, so it is stored in the same form.
        let path = RequestPath::read(text)?;
        Ok(Self(format!("/{}", path.segments.join("/"))))
    }
}

impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for PathRule {
    type Error = InvalidPathRule;

    fn try_from(text: String) -> Result<Self, InvalidPathRule> {
        text.parse()
    }
}

impl From<PathRule> for String {
    fn from(rule: PathRule) -> String {
        rule.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rule: &str, path: &str) -> bool {
        let rule: PathRule = rule.parse().unwrap();
        RequestPath::read(path).is_ok_and(|path| rule.matches(&path))
    }

    #[test]
    fn a_star_stays_in_its_segment_and_two_stars_take_the_rest() {
        for (rule, path, allowed) in [
            ("/v1/messages", "/v1/messages", true),
            ("/v1/messages", "/v1/messages?beta=true", true),
            ("/v1/messages", "/v1/messages/", false),
            ("/v1/messages", "/v1/messages/batches", false),
            ("/v1/messages", "/v1/m%65ssages", true),
            ("/repos/*/issues", "/repos/acme/issues", true),
            ("/repos/*/issues", "/repos/acme/x/issues", false),
            ("/repos/acme/**", "/repos/acme/x/y", true),
            ("/repos/acme/**", "/repos/acme/", true),
            ("/repos/acme/**", "/repos/acme", false),
            ("/repos/acme/**", "/repos/acmeevil/x", false),
            ("/**", "/", true),
            ("/a*b*c", "/a-b-b-c", true),
            ("/a*b*c", "/a-c-b", false),
            ("/@scope/*", "/%40scope/x", true),
        ] {
            assert_eq!(allows(rule, path), allowed, "{rule} {path}");
        }
    }

    #[test]
    fn dot_segments_encoded_slash_double_slash_backslash_nul_in_paths() {
        for path in [
            "",
            "v1",
            "/a//b",
            "//a",
            "/./a",
            "/a/..",
            "/a/../b",
            "/%2e%2e/a",
            "/a/.%2e/b",
            "/%2E/a",
            "/a\\b",
            "/a%5cb",
            "/a%5Cb",
            "/a%00",
            "/a%0",
            "/a%zz",
            "/a%",
            "/a%252fb",
            "/a b",
            "/a\u{e9}",
            "/a\0",
            "/a#b",
            "/..;x/a",
            "/a%2f..%2fb",
            "/a%2f%2fb",
            "http://a.example/a",
            "*",
        ] {
            assert!(RequestPath::read(path).is_err(), "{path:?}");
        }
        let scoped = RequestPath::read("/@scope%2Fname").unwrap();
        assert!(scoped.has_encoded_slash());
        assert!("/*".parse::<PathRule>().unwrap().matches(&scoped));
    }

    #[test]
    fn a_rule_that_no_path_can_match_is_refused() {
        for rule in ["", "a", "/a/**/b", "/a**", "/a/../b", "/a//b", "/a?b", "/a#b", "/\u{e9}", "/a b"] {
            assert!(rule.parse::<PathRule>().is_err(), "{rule:?}");
        }
    }
}
