//! `write`: creates, overwrites or appends to a file.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::{Done, ToolError, target};
use crate::error::FsError;
use crate::filesystem::change::Change;
use crate::filesystem::entry::Written;
use crate::filesystem::{Filesystem, WriteMode};
use crate::limits::Limits;

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
        Err(FsError::NotFound { .. }) => {
            target::check_new(fs, &path, limits)?;
            false
        }
        // A parent is not a directory, or leads outside: the write below reports it.
        Err(_) => false,
    };
    let content = Bytes::copy_from_slice(content.as_bytes());
    let written = fs.write_bytes(&path, content.clone(), mode, now_millis).map_err(refused)?;
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
    Ok(Done { result: shown(&path.to_string(), &written), message, changes: vec![change] })
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
    if exceeds(content, limits.write_chars) {
        let limit = thousands(limits.write_chars);
        let message = format!("Content exceeds maximum length of {limit} characters.");
        return Err(ToolError::new("too_large", message).hinting("write the first part, then append the rest"));
    }
    if content.contains('\0') {
        return Err(ToolError::new("binary", "content must be text; it holds a NUL character."));
    }
    Ok(())
}

fn refused(error: FsError) -> ToolError {
    match error {
        FsError::Exists { .. } => {
            ToolError::new("exists", "File already exists; use edit_file to modify existing content.")
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

/// Returns true if a text has more characters than this. Counts them only if needed.
pub(super) fn exceeds(text: &str, limit: usize) -> bool {
    text.len() > limit && text.chars().count() > limit
}

/// Formats a number like `48,000`.
pub(super) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let head = (!head.is_empty()).then(|| head.to_owned());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}
