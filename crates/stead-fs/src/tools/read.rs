//! `read`: returns lines of a text file, its last lines, a range of its bytes, or the lines of
//! several files.

mod byte_range;
mod feed;
mod page;
mod ranged;
mod several;
mod tail;

use std::io;

use bytes::Bytes;
use serde_json::{Value, json};
use stead_core::ContentHash;

use super::arguments::Arguments;
use super::forms::raw::raw;
use super::forms::tree::tree;
use super::{Done, ToolError, counted, next_call, target};
use crate::budget::Budget;
use crate::encoding::Encoding;
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Content, Filesystem, ReadSeek};
use crate::limits::Limits;
use crate::path::WorkspacePath;
use crate::sparse::hash_file::{has_large_holes, hash_file};
use page::{Page, Window, page_of, read_page};

pub(super) fn read(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    if arguments.flag("raw")? {
        return raw(fs, arguments, limits);
    }
    // With `depth` a directory is listed instead of refused.
    if arguments.has("depth") && is_directory(fs, arguments)? {
        // `offset` and `limit` are for a file: the caller may not know which of them the path is.
        arguments.only("depth", &["path", "file_path", "depth", "hidden", "exclude", "offset", "limit"])?;
        return tree(fs, arguments, limits);
    }
    if arguments.has("paths") {
        arguments.only("paths", &["paths", "limit"])?;
        return several::read_several(fs, arguments, limits);
    }
    if arguments.path()?.is_none() {
        return Err(ToolError::invalid("file_path is missing; give the path of a file, or several as paths."));
    }
    let ranged = ["byte_offset", "byte_limit"].into_iter().find(|name| arguments.has(name));
    if let Some(ranged) = ranged {
        arguments.only(ranged, &["path", "file_path", "byte_offset", "byte_limit"])?;
        return ranged::read_range(fs, arguments, limits);
    }
    if arguments.has("tail") {
        arguments.only("tail", &["path", "file_path", "tail"])?;
        return tail::read_tail(fs, arguments, limits);
    }
    read_lines(fs, arguments, limits)
}

fn is_directory(fs: &dyn Filesystem, arguments: &Arguments<'_>) -> Result<bool, ToolError> {
    let path = target::directory(fs, arguments)?;
    Ok(fs.stat(&path).is_ok_and(|stat| stat.kind == Kind::Directory))
}

fn read_lines(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let path = target::file(fs, arguments)?;
    let offset = arguments.offset()?;
    // Text has no more bytes than its JSON form, so a page of this size is enough for the budget.
    let window = Window { offset, limit: arguments.limit(limits.read_lines)?, bytes: limits.output_bytes };
    let mut page = load(fs, &path, window)?;
    page.fit(&mut Budget::new(limits));
    let message = if page.encoding.is_none() {
        binary(&path)
    } else if page.lines == 0 {
        let lines = counted(page.total_lines, "line", "lines");
        format!("Read {path} (no lines from offset {offset}; the file has {lines}).")
    } else {
        let (first, last, total) = (offset + 1, offset + page.lines, page.total_lines);
        format!("Read {path} (lines {first}-{last} of {total}).{}", continuation(&page, offset))
    };
    Ok(Done { result: shown(&page, offset), message, changes: Vec::new() })
}

/// The sentence that names the call for the rest of a page. Empty if there is no rest.
fn continuation(page: &Page, offset: usize) -> String {
    match (is_truncated(page, offset), page.cut_line, page.cut_at()) {
        (false, ..) => String::new(),
        (true, false, _) => next_call("read", offset + page.lines),
        (true, true, Some(at)) => {
            let (line, end, bytes) = (offset + 1, page.start + page.first_line, page.first_line);
            format!(
                " Line {line} is cut: {} of its {bytes} bytes are shown. Its rest is at bytes {at} to {end}: \
                 call read again with byte_offset {at}.",
                at - page.start,
            )
        }
        (true, true, None) => {
            format!(" Line {} is cut: call read again with byte_offset and byte_limit for its rest.", offset + 1)
        }
    }
}

fn is_truncated(page: &Page, offset: usize) -> bool {
    page.encoding.is_some() && (page.cut_line || offset.saturating_add(page.lines) < page.total_lines)
}

/// Binary content is not shown as text: an agent would edit the garbled form.
fn shown(page: &Page, offset: usize) -> Value {
    let truncated = is_truncated(page, offset);
    let mut result = json!({
        "content": page.content,
        "hash": page.hash.to_string(),
        "offset": offset,
        "lines": page.lines,
        "total_lines": page.total_lines,
        "truncated": truncated,
        "binary": page.encoding.is_none(),
    });
    if let Some(encoding) = page.encoding {
        result["encoding"] = encoding.as_str().into();
    }
    match page.cut_at() {
        Some(at) if truncated && page.cut_line => result["next"] = json!({"byte_offset": at}),
        _ if truncated && !page.cut_line && page.lines > 0 => {
            result["next"] = json!({"offset": offset + page.lines});
        }
        _ => {}
    }
    result
}

fn binary(path: &WorkspacePath) -> String {
    format!("{path} is a binary file; its content is not shown.")
}

fn failed(path: &WorkspacePath, source: io::Error) -> ToolError {
    FsError::Io { action: "read", path: path.clone(), source }.into()
}

/// The content of a file to read.
enum Source {
    Bytes(Bytes, ContentHash),
    Stream(Box<dyn ReadSeek>),
    /// A file with large holes. It is binary, and its zeros are not read.
    Sparse {
        size: u64,
        hash: ContentHash,
    },
}

fn open(fs: &dyn Filesystem, path: &WorkspacePath) -> Result<Source, ToolError> {
    path.check_storable()?;
    match fs.open_read(path).map_err(target::unreadable)? {
        Content::Bytes(bytes) => Ok(Source::Bytes(bytes, fs.hash(path).map_err(target::unreadable)?)),
        Content::Stream { mut reader, size } => {
            let opened = (|| {
                if has_large_holes(&mut *reader, size)? {
                    return Ok(Source::Sparse { size, hash: hash_file(&mut *reader, size)? });
                }
                reader.rewind()?;
                Ok(Source::Stream(reader))
            })();
            opened.map_err(|source| failed(path, source))
        }
    }
}

fn load(fs: &dyn Filesystem, path: &WorkspacePath, window: Window) -> Result<Page, ToolError> {
    match open(fs, path)? {
        Source::Bytes(bytes, hash) => Ok(page_of(&bytes, window, hash)),
        Source::Stream(reader) => read_page(reader, window).map_err(|source| failed(path, source)),
        Source::Sparse { hash, .. } => Ok(Page::binary(hash)),
    }
}

/// The number of bytes that a text takes in a file.
fn encoded_size(encoding: Encoding, text: &str) -> u64 {
    let size = match encoding {
        Encoding::Utf8 => text.len(),
        Encoding::Latin1 => text.chars().count(),
        Encoding::Utf16Le | Encoding::Utf16Be => 2 * text.encode_utf16().count(),
    };
    size as u64
}
