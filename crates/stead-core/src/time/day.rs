//! Calendar days in UTC.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Timestamp;

const MILLIS: i64 = 86_400_000;

/// A calendar day in UTC. Its text is the date, such as `2026-11-16`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Day(i64);

/// The error for a text that is not a date.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a date such as 2026-11-16")]
pub struct InvalidDay(String);

impl Day {
    /// Pattern of the text form.
    pub const PATTERN: &str = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$";

    /// Returns the day that contains a time.
    pub fn of(time: Timestamp) -> Self {
        Self(time.millis().div_euclid(MILLIS))
    }

    /// Returns the first millisecond of the day.
    pub fn start(self) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_mul(MILLIS))
    }

    /// Days since 1970-01-01.
    pub const fn number(self) -> i64 {
        self.0
    }

    /// Returns the day with a number, moved into the range of [`Timestamp`].
    pub fn from_number(number: i64) -> Self {
        Self::of(Timestamp::from_millis(number.saturating_mul(MILLIS)))
    }

    /// Returns the day that begins `days` days later, or earlier if the number is negative.
    pub fn plus(self, days: i64) -> Self {
        Self::from_number(self.0.saturating_add(days))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.start().to_string();
        f.write_str(start.split('T').next().unwrap_or(&start))
    }
}

impl fmt::Debug for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Day {
    type Err = InvalidDay;

    fn from_str(text: &str) -> Result<Self, InvalidDay> {
        let invalid = || InvalidDay(text.chars().take(80).collect());
        let day = format!("{text}T00:00:00Z").parse().map(Self::of).map_err(|_| invalid())?;
        // Other spellings of a date are refused, so that equal days have equal texts.
        if day.to_string() == text { Ok(day) } else { Err(invalid()) }
    }
}

impl TryFrom<String> for Day {
    type Error = InvalidDay;

    fn try_from(text: String) -> Result<Self, InvalidDay> {
        text.parse()
    }
}

impl From<Day> for String {
    fn from(day: Day) -> String {
        day.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_one_text() {
        let day: Day = "2026-11-16".parse().unwrap();
        assert_eq!(
            (day.to_string().as_str(), day.start().to_string().as_str()),
            ("2026-11-16", "2026-11-16T00:00:00.000Z")
        );
        assert_eq!(Day::of("2026-11-16T23:59:59.999Z".parse().unwrap()), day);
        assert_eq!(Day::of("2026-11-17T00:00:00Z".parse().unwrap()), day.plus(1));
        for wrong in ["", "20261116", "2026-11-31", "2026-11-16T00:00:00Z", "+002026-11-16", "yesterday"] {
            assert!(wrong.parse::<Day>().is_err(), "{wrong}");
        }
    }
}
