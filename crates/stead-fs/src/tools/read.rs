//! `read`: returns a page of raw lines.

use serde_json::json;

use super::arguments::Arguments;
use super::page::{Page, Window, page_of, read_page};
use super::{Done, ToolError, counted, target};
use crate::error::FsError;
use crate::filesystem::{Content, Filesystem};
use crate::limits::Limits;
use crate::path::WorkspacePath;

pub(super) fn read(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let path = target::file(fs, arguments)?;
    let offset = usize::try_from(arguments.integer("offset")?.unwrap_or(0))
        .map_err(|_| ToolError::invalid("offset must be non-negative."))?;
    let window = Window { offset, limit: arguments.limit(limits.read_lines)?, bytes: limits.read_bytes };
    let page = load(fs, &path, window)?;
    // Do not show binary content as text: an agent would edit the garbled form.
    let (content, lines) = match String::from_utf8(page.content) {
        Ok(text) if !page.binary => (text, page.lines),
        _ => (String::new(), 0),
    };
    let truncated = !page.binary && (page.cut || offset.saturating_add(lines) < page.total_lines);
    let message = if page.binary {
        format!("{path} is a binary file; its content is not shown.")
    } else if lines == 0 {
        format!(
            "Read {path} (no lines from offset {offset}; the file has {}).",
            counted(page.total_lines, "line", "lines")
        )
    } else {
        let more = if truncated { " There is more: raise offset to read on." } else { "" };
        format!("Read {path} (lines {}-{} of {}).{more}", offset + 1, offset + lines, page.total_lines)
    };
    let result = json!({
        "content": content,
        "hash": page.hash.to_string(),
        "offset": offset,
        "lines": lines,
        "total_lines": page.total_lines,
        "truncated": truncated,
        "binary": page.binary,
    });
    Ok(Done { result, message, changes: Vec::new() })
}

fn load(fs: &dyn Filesystem, path: &WorkspacePath, window: Window) -> Result<Page, ToolError> {
    let page = match fs.open_read(path).map_err(target::unreadable)? {
        Content::Bytes(bytes) => {
            let hash = fs.hash(path).map_err(target::unreadable)?;
            Ok(page_of(&bytes, window, hash))
        }
        Content::Stream { reader, .. } => read_page(reader, window),
    };
    page.map_err(|source| FsError::Io { action: "read", path: path.clone(), source }.into())
}
