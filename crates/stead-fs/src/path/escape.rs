//! Text form of names that are not UTF-8.
//!
//! A byte that is not UTF-8 appears as `\xHH` (two lower-case hex digits, 80 or more). A backslash
//! that would read as such an escape appears as `\x5c`. Everything else is unchanged, so ordinary
//! names, even with backslashes, look normal. Invariant: `unescape(escape(name)) == name` for every
//! name.

use std::borrow::Cow;
use std::fmt::Write;

/// The byte of an escape at the start of `text`, if there is one.
fn escaped_byte(text: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = text else { return None };
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let byte = digit(*high)? << 4 | digit(*low)?;
    (byte >= 0x80 || byte == b'\\').then_some(byte)
}

pub(super) fn escape(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(name)
        && !text.contains("\\x")
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(name.len() + 8);
    for chunk in name.utf8_chunks() {
        let valid = chunk.valid();
        for (at, character) in valid.char_indices() {
            if character == '\\' && escaped_byte(&valid.as_bytes()[at..]).is_some() {
                out.push_str("\\x5c");
            } else {
                out.push(character);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    Cow::Owned(out)
}

pub(super) fn unescape(text: &str) -> Cow<'_, [u8]> {
    if !text.contains("\\x") {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some(first) = rest.first() {
        match escaped_byte(rest) {
            Some(byte) => {
                out.push(byte);
                rest = &rest[4..];
            }
            None => {
                out.push(*first);
                rest = &rest[1..];
            }
        }
    }
    Cow::Owned(out)
}
