//! Formats times for the API. This crate never reads the clock.

/// Returns the time as RFC 3339 in UTC with exactly three decimals, clamped to the years 1970 to
/// 9999.
pub(super) fn rfc3339(millis: i64) -> String {
    const YEAR_9999: i64 = 253_402_207_200_000;
    match jiff::Timestamp::from_millisecond(millis.clamp(0, YEAR_9999)) {
        Ok(moment) => format!("{moment:.3}"),
        Err(_) => format!("{millis}ms"),
    }
}
