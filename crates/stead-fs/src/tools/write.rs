//! `write`: creates, overwrites or appends to a file.

use std::io::{Cursor, Read};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::text_file::no_character;
use super::{Done, ToolError, target};
use crate::encoding::{Encoding, TextCheck};
use crate::error::FsError;
use crate::filesystem::change::Change;
use crate::filesystem::entry::Written;
use crate::filesystem::{Content, Filesystem, WriteMode};
use crate::limits::Limits;
use crate::path::WorkspacePath;

/// Number of bytes that are read at a time.
const CHUNK_BYTES: usize = 64 << 10;

pub(super) fn write(
    fs: &mut dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
    now_millis: i64,
) -> Result<Done, ToolError> {
    let path = target::file(fs, arguments)?;
    let content = arguments.required_text("content")?;
    let mode = mode(arguments)?;
    check_content(content, limits)?;
    target::check_match(fs, &path, arguments.if_match()?)?;
    let existed = match fs.stat(&path) {
        Ok(_) => true,
        // A name that no directory can hold breaks a limit of new names.
        Err(FsError::NotFound { .. } | FsError::Path(_)) => {
            target::check_new(fs, &path, limits)?;
            false
        }
        // A parent is not a directory, or leads outside: the write below reports it.
        Err(_) => false,
    };
    let encoding = match mode {
        WriteMode::Append if existed => append_encoding(fs, &path, content)?,
        _ => Encoding::Utf8,
    };
    let content = encoding.encode_rest(content).map_err(|missing| no_character(encoding, missing).at(&path))?;
    let content = Bytes::from(content);
    let written = fs.write_bytes(&path, content.clone(), mode, now_millis).map_err(|error| refused(&path, error))?;
    let done = match (mode, existed) {
        (WriteMode::Append, true) => "Appended to",
        (WriteMode::Overwrite, true) => "Updated",
        _ => "Created",
    };
    let message = format!("{done} {path} ({} bytes).", written.bytes);
    let changed = written.path.clone();
    let change = match mode {
        WriteMode::Append => Change::Appended { path: changed, content },
        WriteMode::Create | WriteMode::Overwrite => Change::Wrote { path: changed, content },
    };
    let mut result = shown(&path.to_string(), &written);
    if encoding != Encoding::Utf8 {
        result["encoding"] = encoding.as_str().into();
    }
    Ok(Done { result, message, changes: vec![change] })
}

/// Returns the encoding for text at the end of a file. ASCII is the same in UTF-8 and Latin-1, so
/// it needs only the byte order mark. Binary files get UTF-8, like new ones.
fn append_encoding(fs: &dyn Filesystem, path: &WorkspacePath, text: &str) -> Result<Encoding, ToolError> {
    let mut reader: Box<dyn Read> = match fs.open_read(path) {
        Ok(Content::Bytes(bytes)) => Box::new(Cursor::new(bytes)),
        Ok(Content::Stream { reader, .. }) => Box::new(reader),
        // The write reports why the file cannot be opened.
        Err(_) => return Ok(Encoding::Utf8),
    };
    let failed = |source| FsError::Io { action: "read", path: path.clone(), source };
    let mut check = TextCheck::default();
    let mut buffer = Vec::with_capacity(CHUNK_BYTES);
    loop {
        buffer.clear();
        reader.by_ref().take(CHUNK_BYTES as u64).read_to_end(&mut buffer).map_err(failed)?;
        check.add(&buffer);
        if buffer.is_empty() || check.is_binary() || (text.is_ascii() && !check.is_wide()) {
            break;
        }
    }
    Ok(match check.finish() {
        Some(encoding @ (Encoding::Utf16Le | Encoding::Utf16Be)) => encoding,
        Some(Encoding::Latin1) if !text.is_ascii() => Encoding::Latin1,
        _ => Encoding::Utf8,
    })
}

fn mode(arguments: &Arguments<'_>) -> Result<WriteMode, ToolError> {
    match arguments.text("mode")? {
        None | Some("create") => Ok(WriteMode::Create),
        Some("overwrite") => Ok(WriteMode::Overwrite),
        Some("append") => Ok(WriteMode::Append),
        Some(_) => Err(ToolError::invalid("mode must be one of create, overwrite, append.")),
    }
}

fn check_content(content: &str, limits: &Limits) -> Result<(), ToolError> {
    if let Some(limit) = limits.broken_by(content) {
        let message = format!("Content exceeds maximum length of {limit}.");
        return Err(ToolError::new("too_large", message).hinting("write the first part, then append the rest"));
    }
    if content.contains('\0') {
        return Err(ToolError::new("binary", "content must be text; it holds a NUL character."));
    }
    Ok(())
}

fn refused(path: &WorkspacePath, error: FsError) -> ToolError {
    match error {
        FsError::Exists { .. } => {
            ToolError::new("exists", "File already exists; use edit_file to modify existing content.")
                .at(path)
                .hinting("edit changes parts of it; write with mode \"overwrite\" or \"append\" changes the whole")
        }
        FsError::IsDirectory { path } => ToolError::new("is_directory", format!("Path is a directory: {path}")),
        other => other.into(),
    }
}

fn shown(path: &str, written: &Written) -> Value {
    let mut shown = Map::new();
    shown.insert("path".to_owned(), path.into());
    shown.insert("bytes".to_owned(), written.bytes.into());
    shown.insert("hash".to_owned(), written.hash.to_string().into());
    if let Some(version) = written.version {
        shown.insert("version".to_owned(), version.into());
    }
    shown.into()
}
