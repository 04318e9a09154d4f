//! Query parameters. Unknown, duplicate and invalid parameters are errors.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use http::Uri;
use http::request::Parts;
use stead_core::parse::{FieldError, Invalid};

use crate::problem::Problem;

/// Maximum number of parameters with the same prefix.
const MOST_PAIRS: usize = 16;
/// Maximum length of a parameter with a prefix.
const MOST_PAIR_BYTES: usize = 4096;

/// The query parameters of one route.
pub(crate) trait ReadQuery: Sized {
    fn read(parameters: &mut Parameters) -> Self;
}

/// Extractor of the query parameters. Its error names every invalid parameter.
pub(crate) struct Query<T>(pub(crate) T);

/// The parameters of a route that has none.
pub(crate) struct Nothing;

impl ReadQuery for Nothing {
    fn read(_: &mut Parameters) -> Self {
        Self
    }
}

impl<T: ReadQuery, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Self::from_uri(&parts.uri)
    }
}

impl<T: ReadQuery> Query<T> {
    pub(crate) fn from_uri(uri: &Uri) -> Result<Self, Problem> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
        let pairs = pairs.map_err(|_| Problem::invalid("", "the query string cannot be read"))?;
        Ok(Self(read(pairs.0)?))
    }
}

fn read<T: ReadQuery>(given: Vec<(String, String)>) -> Result<T, Invalid> {
    let mut parameters = Parameters { given, known: Vec::new(), errors: Vec::new() };
    let query = T::read(&mut parameters);
    let Parameters { given, known, mut errors } = parameters;
    for (name, _) in given {
        let shown: String = name.chars().take(80).collect();
        let valid = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        errors.push(FieldError { field: shown, message: format!("unknown query parameter (valid: {valid})") });
    }
    if errors.is_empty() { Ok(query) } else { Err(Invalid { errors }) }
}

/// The parameters of a request. Reading removes them, and those that remain at the end are unknown.
pub(crate) struct Parameters {
    given: Vec<(String, String)>,
    known: Vec<&'static str>,
    errors: Vec<FieldError>,
}

impl Parameters {
    /// Reads a parameter with the parser of its type.
    pub(crate) fn parsed<T>(&mut self, name: &'static str) -> Option<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = self.take(name)?;
        text.parse().map_err(|error: T::Err| self.fail(name, error.to_string())).ok()
    }

    /// Reads an integer within a range.
    pub(crate) fn number(&mut self, name: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let text = self.take(name)?;
        // `parse` alone would accept a leading `+`, a second spelling of the same number.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>() {
            Ok(number) if digits && range.contains(&number) => Some(number),
            _ => {
                self.fail(name, format!("must be a whole number between {} and {}", range.start(), range.end()));
                None
            }
        }
    }

    /// Reads one of a fixed set of words.
    pub(crate) fn word(&mut self, name: &'static str, words: &[&'static str]) -> Option<&'static str> {
        let text = self.take(name)?;
        let found = words.iter().find(|word| **word == text).copied();
        if found.is_none() {
            self.fail(name, format!("must be {}", words.join(" or ")));
        }
        found
    }

    /// Reads a text of 1 to `most` characters.
    pub(crate) fn text(&mut self, name: &'static str, most: usize) -> Option<String> {
        let text = self.take(name)?;
        if text.is_empty() || text.chars().count() > most {
            self.fail(name, format!("must have between 1 and {most} characters"));
            return None;
        }
        Some(text)
    }

    /// Reads every parameter `{prefix}KEY`, as pairs of the key and the value. `shown` names them
    /// in error messages.
    pub(crate) fn prefixed(&mut self, prefix: &str, shown: &'static str) -> Vec<(String, String)> {
        self.known.push(shown);
        let given = self.given.extract_if(.., |(name, _)| name.starts_with(prefix));
        let pairs: Vec<_> = given.map(|(name, value)| (name[prefix.len()..].to_owned(), value)).collect();
        if pairs.iter().any(|(key, value)| key.is_empty() || key.len() + value.len() > MOST_PAIR_BYTES) {
            self.fail(shown, format!("each needs a key, and may have at most {MOST_PAIR_BYTES} bytes with its value"));
        }
        if pairs.len() > MOST_PAIRS {
            self.fail(shown, format!("at most {MOST_PAIRS} may be given"));
        }
        pairs
    }

    fn fail(&mut self, name: &'static str, message: String) {
        self.errors.push(FieldError { field: name.to_owned(), message });
    }

    fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let mut values: Vec<String> =
            self.given.extract_if(.., |(given, _)| given == name).map(|(_, text)| text).collect();
        if values.len() > 1 {
            self.fail(name, "is given more than once".to_owned());
            return None;
        }
        values.pop()
    }
}
