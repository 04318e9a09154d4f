//! Names as git writes them in a patch.

use crate::path::WorkspacePath;

/// The name as it is, or in quotes with C escapes where it holds what would be misread.
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
