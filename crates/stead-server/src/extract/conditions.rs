//! Conditional requests and ranges (RFC 9110, sections 13 and 14) for single files with a content
//! hash as entity tag.

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, header};

use crate::extract::headers::once;
use crate::problem::Problem;

/// Preconditions of a write.
pub(crate) struct Required {
    /// `If-Match`: a content hash, or `*` for any file.
    pub(crate) if_match: Option<String>,
    /// `If-None-Match: *`: the file must not exist.
    pub(crate) absent: bool,
}

impl<S: Sync> FromRequestParts<S> for Required {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let if_match = match once(&parts.headers, header::IF_MATCH)? {
            Some(tag) if is_tag(&tag) => Some(unquoted(&tag).to_owned()),
            Some(_) => return Err(Problem::invalid("If-Match", "must be one content hash in quotes, or *")),
            None => None,
        };
        let absent = match once(&parts.headers, header::IF_NONE_MATCH)?.as_deref() {
            None => false,
            Some("*") => true,
            Some(_) => return Err(Problem::invalid("If-None-Match", "must be * where something is changed")),
        };
        Ok(Self { if_match, absent })
    }
}

/// Accepts visible ASCII without a comma: a single tag, not a list.
fn is_tag(text: &str) -> bool {
    (1..=200).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}

/// Removes the quotes of an `ETag` value. A hash without quotes is returned unchanged.
fn unquoted(tag: &str) -> &str {
    tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag)
}

/// Conditions and range of a read. Headers that cannot be parsed are ignored, as the RFC requires.
#[derive(Default)]
pub(crate) struct Wanted {
    none_match: Vec<String>,
    range: Option<String>,
    if_range: Option<String>,
}

impl<S: Sync> FromRequestParts<S> for Wanted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let headers = &parts.headers;
        let tags = |value: &str| -> Vec<String> {
            let tags = value.split(',').map(str::trim);
            tags.map(|tag| unquoted(tag.strip_prefix("W/").unwrap_or(tag)).to_owned()).collect()
        };
        let none_match = headers.get_all(header::IF_NONE_MATCH).iter();
        let none_match = none_match.filter_map(|value| value.to_str().ok()).flat_map(tags).collect();
        let (range, if_range) = (only(headers, header::RANGE), only(headers, header::IF_RANGE));
        Ok(Self { none_match, range, if_range })
    }
}

fn only(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    once(headers, name).ok().flatten()
}

/// The part of a file to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    /// Half-open range: start and end, where the end is excluded.
    Between(u64, u64),
    Outside,
}

impl Wanted {
    /// Returns true if the client already has this content.
    pub(crate) fn has(&self, hash: &str) -> bool {
        self.none_match.iter().any(|tag| tag == "*" || tag == hash)
    }

    /// Returns the requested part of a file of this size. Multiple ranges, other units and invalid
    /// values give the whole file.
    pub(crate) fn part(&self, hash: &str, size: u64) -> Part {
        let current = self.if_range.as_deref().is_none_or(|tag| tag.trim() == format!("\"{hash}\""));
        let Some(range) = self.range.as_deref().filter(|_| current) else { return Part::Whole };
        range.trim().strip_prefix("bytes=").and_then(|spec| part(spec.trim(), size)).unwrap_or(Part::Whole)
    }
}

fn part(spec: &str, size: u64) -> Option<Part> {
    let number = |text: &str| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number that overflows lies beyond the end of any file.
        digits.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (first, last) = spec.split_once('-')?;
    let (start, end) = match (first, last) {
        ("", suffix) => (size.saturating_sub(number(suffix)?), size),
        (first, "") => (number(first)?, size),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1).min(size))
        }
    };
    Some(if start < end { Part::Between(start, end) } else { Part::Outside })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: &str, size: u64, expected: Part) {
        let wanted = Wanted { range: Some(range.to_owned()), ..Wanted::default() };
        assert_eq!(wanted.part("h", size), expected, "{range} of {size}");
    }

    #[test]
    fn ranges() {
        check("bytes=0-0", 10, Part::Between(0, 1));
        check("bytes=2-", 10, Part::Between(2, 10));
        check("bytes=-3", 10, Part::Between(7, 10));
        check("bytes=-30", 10, Part::Between(0, 10));
        check("bytes=5-99999999999999999999999", 10, Part::Between(5, 10));
        for outside in ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999999-"] {
            check(outside, 10, Part::Outside);
        }
        check("bytes=0-", 0, Part::Outside);
        for nonsense in
            ["", "bytes", "bytes=", "bytes=-", "bytes=5-2", "bytes=+1-2", "lines=1-2", "bytes=0-1,3-4", "bytes=a-b"]
        {
            check(nonsense, 10, Part::Whole);
        }
    }

    #[test]
    fn a_range_of_another_version_is_the_whole_file() {
        let wanted = |tag: &str| Wanted {
            range: Some("bytes=1-2".to_owned()),
            if_range: Some(tag.to_owned()),
            ..Wanted::default()
        };
        assert_eq!(wanted("\"h\"").part("h", 10), Part::Between(1, 3));
        for other in ["\"g\"", "W/\"h\"", "Wed, 21 Oct 2015 07:28:00 GMT"] {
            assert_eq!(wanted(other).part("h", 10), Part::Whole);
        }
    }
}
