//! `edit` with `insert_line` and `insert_text`: inserts lines after a line, like the text editor
//! that Anthropic's models know.
//!
//! It inserts whole lines: a missing line end is added in the file's own form. Every other byte is
//! unchanged.

use serde_json::json;

use super::arguments::Arguments;
use super::edit::{check_text, editable};
use super::forms::str_replace::{check_exists, snippet};
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
    check_exists(fs, arguments)?;
    let file = editable(fs, &path, arguments.if_match()?, limits)?;
    let text_after = put(&file.text, line, text)?;
    let inserted = file.encode(text_after.clone(), limits)?;
    let written = fs.write_bytes(&path, inserted.clone(), WriteMode::Overwrite, now_millis)?;
    let message = format!("Inserted after line {line} of {path}.");
    let after = usize::try_from(line).unwrap_or_default();
    let more = text.trim_end_matches('\n').matches('\n').count();
    let result = json!({
        "path": path.to_string(),
        "replacements": 1,
        "hash": written.hash.to_string(),
        "encoding": file.encoding.as_str(),
        "snippet": snippet(&text_after, after, more, limits),
    });
    Ok(Done { result, message, changes: vec![Change::Wrote { path: written.path, content: inserted }] })
}

fn put(content: &[u8], line: i64, text: &str) -> Result<Vec<u8>, ToolError> {
    let open = !content.is_empty() && !content.ends_with(b"\n");
    let lines = memchr::memchr_iter(b'\n', content).count() + usize::from(open);
    let after = usize::try_from(line).ok().filter(|line| *line <= lines);
    let Some(after) = after else {
        return Err(ToolError::invalid(format!(
            "Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file: [0, {lines}]"
        )));
    };
    let at = match after {
        0 => 0,
        after => memchr::memchr_iter(b'\n', content).nth(after - 1).map_or(content.len(), |at| at + 1),
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
            assert!(error.message.ends_with("within the range of lines of the file: [0, 2]"), "{}", error.message);
        }
    }
}
