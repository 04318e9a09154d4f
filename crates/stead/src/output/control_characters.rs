//! Escapes untrusted text: a workspace must not be able to move the terminal's cursor, rewrite its
//! lines, set its title, or change the reading direction.

/// Returns true for characters that must be escaped.
fn dangerous(c: char) -> bool {
    c.is_control()
        // Reading direction: overrides, isolates and marks.
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Escapes a text for one line.
pub(crate) fn line_of(text: &str) -> String {
    escaped(text, |c| c == '\t')
}

/// Escapes a text and keeps its line breaks.
pub(crate) fn lines_of(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if dangerous(c) && !keep(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Escapes a JSON text. JSON already escapes the C0 controls; the others occur only inside strings,
/// where an escape is equivalent.
pub(super) fn json_of(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if dangerous(c) && c != '\n' {
            shown.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_shown_not_sent() {
        assert_eq!(line_of("\x1b[2Jgone"), "\\u{1b}[2Jgone");
        assert_eq!(line_of("a\u{9b}31mb"), "a\\u{9b}31mb");
        assert_eq!(line_of("a\rb\nc\td"), "a\\rb\\nc\td");
        assert_eq!(line_of("x\u{202e}txt.exe"), "x\\u{202e}txt.exe");
        assert_eq!(lines_of("a\nb\x07"), "a\nb\\u{7}");
    }

    #[test]
    fn people_may_write_their_own_language() {
        let text = "naïve 日本語 🙂 e\u{301} שלום";
        assert_eq!(line_of(text), text);
    }

    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({"a": "\u{7f}\u{9b}\u{202e}\x1b", "b": [1, "é"]});
        let text = json_of(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|c| dangerous(c) && c != '\n'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
