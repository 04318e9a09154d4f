//! Renders values of the API for people.

mod event;
mod plan;
mod plan_network;
mod session;
mod tool;

use serde::Serialize;
use serde_json::Value;
use stead_api::List;

pub(crate) use event::{event_row, event_table, events};
pub(crate) use plan::plan;
pub(crate) use plan_network::{hosts, plan_network};
pub(crate) use session::{UNAVAILABLE, session, session_usage, sessions, warn};
pub(crate) use tool::{Shown, tool_answer};

use crate::output::Output;

const ABSENT: &str = "–";

/// A value in one table cell: text unquoted, a list of texts with commas, other values as JSON. A
/// dash stands for null, an empty text and an empty list.
pub(crate) fn cell(value: &impl Serialize) -> String {
    match serde_json::to_value(value).unwrap_or_default() {
        Value::Null => ABSENT.to_owned(),
        Value::String(text) if text.is_empty() => ABSENT.to_owned(),
        Value::String(text) => text,
        Value::Array(items) if items.is_empty() => ABSENT.to_owned(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().map(cell).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A time to the second, with a space between date and time.
pub(crate) fn timestamp(value: &impl Serialize) -> String {
    let text = cell(value);
    match text.split_once('T') {
        Some((date, time)) => format!("{date} {}", time.get(..8).unwrap_or(time)),
        None => text,
    }
}

/// A time without year and seconds, for narrow rows.
pub(crate) fn short_timestamp(value: &impl Serialize) -> String {
    let text = timestamp(value);
    text.get(5..16).unwrap_or(&text).to_owned()
}

/// A size with a binary unit.
pub(crate) fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (count as f64, 0);
    while size >= 1024.0 && unit + 1 < units.len() {
        (size, unit) = (size / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{count} B") } else { format!("{size:.1} {}", units[unit]) }
}

/// A duration in milliseconds or seconds.
pub(crate) fn duration(millis: u64) -> String {
    if millis < 1_000 { format!("{millis} ms") } else { format!("{:.1} s", millis as f64 / 1_000.0) }
}

/// Cuts a text to at most `most` characters. A cut text ends with `…`.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// A number with its singular or plural noun.
pub(crate) fn counted(count: usize, one: &str, several: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {several}") }
}

/// Prints a note if a list has more items than requested.
pub(crate) fn note_more<T>(out: &Output, listing: &List<T>) {
    if listing.next_cursor.is_some() {
        out.note(&format!("only the first {} are shown; --limit N shows up to N", listing.items.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_fit_in_cells() {
        assert_eq!(cell(&json!(null)), "–");
        assert_eq!(cell(&json!("a")), "a");
        assert_eq!(cell(&json!(["a", "b"])), "a, b");
        assert_eq!(cell(&json!({"a": 1})), r#"{"a":1}"#);
        assert_eq!(timestamp(&json!("2026-11-15T09:30:00.123Z")), "2026-11-15 09:30:00");
        assert_eq!(short_timestamp(&json!("2026-11-15T09:30:00.123Z")), "11-15 09:30");
        assert_eq!(short_timestamp(&json!(null)), "–");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
        let sizes = [0, 1023, 1024, 1_572_864, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "16777216.0 TiB"]);
        assert_eq!([7, 1_500, 61_000].map(duration), ["7 ms", "1.5 s", "61.0 s"]);
    }
}
