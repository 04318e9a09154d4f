//! Durations in arguments: `90s`, `15m`, `2h`, `30d`, or a number of seconds.

/// Parses a duration into seconds.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a duration: write 90s, 15m, 2h or 30d");
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        Some((at, 'd')) => (&text[..at], 24 * 3600),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_number_and_at_most_one_unit() {
        for (text, expected) in [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("30d", 2_592_000), ("0s", 0)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "s", "1w", "-1s", "1.5h", "1h30m", "18446744073709551615d", "é"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
