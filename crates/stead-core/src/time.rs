//! Timestamps. This crate never reads a clock.

pub mod clock_history;
mod day;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use day::{Day, InvalidDay};

/// Milliseconds since the Unix epoch. The text form is RFC 3339 in UTC with exactly three decimals,
/// so that equal timestamps have equal texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(i64);

/// The error for a text that is not an RFC 3339 time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 time such as 2026-11-15T09:30:00Z")]
pub struct InvalidTimestamp(String);

impl Timestamp {
    /// The last time that RFC 3339 and jiff can represent, in the year 9999.
    const MAX_MILLIS: i64 = 253_402_207_200_000;

    /// Makes a timestamp, clamped to the range that RFC 3339 can represent.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(0, Self::MAX_MILLIS))
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    pub fn plus_seconds(self, seconds: u64) -> Self {
        let added = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
        Self::from_millis(self.0.saturating_add(added))
    }

    pub fn millis_since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0 - earlier.0).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let time: jiff::Timestamp = text.parse().map_err(|_| InvalidTimestamp(text.chars().take(80).collect()))?;
        Ok(Self::from_millis(time.as_millisecond()))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = InvalidTimestamp;

    fn try_from(text: String) -> Result<Self, InvalidTimestamp> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> String {
        time.to_string()
    }
}
