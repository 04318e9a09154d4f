//! `read` with `tail`: returns the last lines of a file.

use std::io::Seek as _;

use super::page::{Page, Window, page_of, read_page, tail_window};
use super::{Source, binary, continuation, failed, open, shown};
use crate::budget::Budget;
use crate::filesystem::Filesystem;
use crate::limits::Limits;
use crate::path::WorkspacePath;
use crate::tools::arguments::Arguments;
use crate::tools::{Done, ToolError, counted, target};

pub(super) fn read_tail(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let path = target::file(fs, arguments)?;
    let asked = arguments.size("tail")?.filter(|lines| *lines > 0);
    let asked = asked.ok_or_else(|| ToolError::invalid("tail must be a positive integer."))?;
    let lines = asked.min(limits.read_lines);
    let (window, mut page) = load(fs, &path, lines, limits.output_bytes)?;
    let mut budget = Budget::new(limits);
    let offset = window.offset + page.keep_end(budget.last_lines(&page.content));
    page.fit(&mut budget);
    let mut result = shown(&page, offset);
    let missing = asked.min(page.total_lines).saturating_sub(page.lines);
    let (count, total) = (counted(page.lines, "line", "lines"), page.total_lines);
    let message = match page.encoding {
        None => binary(&path),
        Some(_) if missing > 0 => {
            // `next` is for what follows, so only the message names the lines before.
            result["truncated"] = true.into();
            let start = offset.saturating_sub(missing);
            format!(
                "Read {path} (the last {count} of {total}; more do not fit in one answer).{} \
                 For the lines before them, call read again with offset {start} and limit {missing}.",
                continuation(&page, offset)
            )
        }
        Some(_) => format!("Read {path} (the last {count} of {total}).{}", continuation(&page, offset)),
    };
    Ok(Done { result, message, changes: Vec::new() })
}

/// Reads the file twice: first to find where the last lines start.
fn load(fs: &dyn Filesystem, path: &WorkspacePath, lines: usize, bytes: usize) -> Result<(Window, Page), ToolError> {
    let found = match open(fs, path)? {
        Source::Bytes(content, hash) => {
            tail_window(&*content, lines, bytes).map(|window| (window, page_of(&content, window, hash)))
        }
        Source::Stream(mut reader) => tail_window(&mut reader, lines, bytes).and_then(|window| {
            reader.rewind()?;
            Ok((window, read_page(reader, window)?))
        }),
        Source::Sparse { hash, .. } => Ok((Window { offset: 0, limit: 0, bytes }, Page::binary(hash))),
    };
    found.map_err(|source| failed(path, source))
}
