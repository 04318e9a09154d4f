//! `edit` with `insert_line` and `insert_text`: inserts lines after a line, like the text editor
//! that Anthropic's models know.
//!
//! It inserts whole lines: a missing line end is added in the file's own form. Every other byte is
//! unchanged.

use bytes::Bytes;
use serde_json::json;

use super::arguments::Arguments;
use super::edit::{check_text, editable, too_large};
use super::{Done, ToolError, target};
use crate::filesystem::change::Change;
use crate::filesystem::{Filesystem, WriteMode};
use crate::limits::Limits;

pub(super) fn insert(
    fs: &mut dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
    now_millis: i64,
) -> Result<Done, ToolError> {
    let path = target::file(fs, arguments)?;
    let line = arguments.integer("insert_line")?.ok_or_else(|| ToolError::invalid("insert_line is required."))?;
    let text = arguments.required_text("insert_text")?;
    check_text("insert_text", text, limits)?;
    let content = editable(fs, &path, arguments.if_match()?, limits)?;
    let inserted = Bytes::from(put(&content, line, text)?);
    if inserted.len() as u64 > limits.edit_bytes {
        return Err(too_large(limits));
    }
    let written = fs.write_bytes(&path, inserted.clone(), WriteMode::Overwrite, now_millis)?;
    let message = format!("Inserted after line {line} of {path}.");
    let result = json!({"path": path.to_string(), "replacements": 1, "hash": written.hash.to_string()});
    Ok(Done { result, message, changes: vec![Change::Wrote { path: written.path, content: inserted }] })
}

fn put(content: &[u8], line: i64, text: &str) -> Result<Vec<u8>, ToolError> {
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', content).map(|at| at + 1).collect();
    let open = ends.last().copied().unwrap_or(0) < content.len();
    let lines = ends.len() + usize::from(open);
    let after = usize::try_from(line).ok().filter(|line| *line <= lines);
    let Some(after) = after else {
        return Err(ToolError::invalid(format!("insert_line must be between 0 and {lines}, the number of lines.")));
    };
    let at = match after {
        0 => 0,
        after => ends.get(after - 1).copied().unwrap_or(content.len()),
    };
    let end: &[u8] = if memchr::memmem::find(content, b"\r\n").is_some() { b"\r\n" } else { b"\n" };
    // If the last line has no end, text inserted after it needs one before it and none after it.
    let at_open_end = open && at == content.len();
    let before = if at_open_end { end } else { b"" };
    let behind = if at_open_end || text.ends_with('\n') || text.is_empty() { b"" } else { end };
    Ok([&content[..at], before, text.as_bytes(), behind, &content[at..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &str, line: i64, text: &str, expected: &str) {
        let found = put(content.as_bytes(), line, text).map_err(|error| error.message);
        assert_eq!(String::from_utf8(found.unwrap()).unwrap(), expected);
    }

    #[test]
    fn whole_lines_at_any_place() {
        check("a\nb\n", 0, "x", "x\na\nb\n");
        check("a\nb\n", 1, "x\n", "a\nx\nb\n");
        check("a\nb\n", 2, "x\ny", "a\nb\nx\ny\n");
        check("a\nb", 2, "x", "a\nb\nx");
        check("a\nb", 1, "x", "a\nx\nb");
        check("", 0, "x", "x\n");
        check("a\r\nb\r\n", 1, "x", "a\r\nx\r\nb\r\n");
        check("a\n", 1, "", "a\n");
    }

    #[test]
    fn no_line_that_is_not_there() {
        for line in [-1, 3, i64::MAX] {
            let error = put(b"a\nb\n", line, "x").unwrap_err();
            assert_eq!(error.message, "insert_line must be between 0 and 2, the number of lines.");
        }
    }
}
