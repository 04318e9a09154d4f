//! Quotes file names in a patch as git does.

use crate::path::WorkspacePath;

/// Quotes a path without a prefix.
pub(super) fn quoted_path(path: &WorkspacePath) -> String {
    quoted("", path)
}

/// Returns the plain name, or the name in quotes with C escapes if it contains a quote, a backslash
/// or a byte other than printable ASCII.
pub(super) fn quoted(prefix: &str, path: &WorkspacePath) -> String {
    let name = path.as_bytes();
    let plain = |byte: &u8| (b' '..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\');
    if let Ok(text) = std::str::from_utf8(name)
        && name.iter().all(plain)
    {
        return format!("{prefix}{text}");
    }
    let mut out = format!("\"{prefix}");
    for byte in name {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            byte if plain(byte) => out.push(char::from(*byte)),
            byte => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out.push('"');
    out
}

/// Reverses [`quoted`]. Returns `None` for a text in quotes with an invalid escape or without a
/// closing quote.
pub(super) fn unquoted(text: &str) -> Option<Vec<u8>> {
    let Some(inner) = text.strip_prefix('"') else { return Some(text.as_bytes().to_vec()) };
    let mut bytes = inner.strip_suffix('"')?.bytes();
    let mut name = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            name.push(byte);
            continue;
        }
        name.push(match bytes.next()? {
            b'a' => 0x07,
            b'b' => 0x08,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'r' => b'\r',
            plain @ (b'"' | b'\\') => plain,
            first @ b'0'..=b'3' => {
                let digit = |byte: u8| (b'0'..=b'7').contains(&byte).then(|| byte - b'0');
                let (second, third) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                (first - b'0') << 6 | second << 3 | third
            }
            _ => return None,
        });
    }
    Some(name)
}
