//! Values of flags: durations and pairs.

/// Reads a number with a unit, such as `90s`, `30m`, `2h` or `7d`, as seconds. A number without a
/// unit counts seconds.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let wanted = || format!("{text:?} is not a duration such as 90s, 30m, 2h or 7d");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wanted()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wanted)
}

/// Reads `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_one_unit() {
        assert_eq!(
            ["90", "90s", "30m", "2h", "7d"].map(|text| seconds(text).ok()),
            [90, 90, 1800, 7200, 604_800].map(Some)
        );
        for wrong in ["", "h", "-1s", "1.5h", "1h30m", "99999999999999999999", "9999999999999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pair_needs_a_key() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("=b").is_err() && pair("a").is_err());
    }
}
