//! `rm`: removes an entry and everything in it.

use serde_json::json;

use super::arguments::Arguments;
use super::{Done, ToolError, target};
use crate::error::FsError;
use crate::filesystem::change::Change;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Filesystem, Recursion};

pub(super) fn rm(fs: &mut dyn Filesystem, arguments: &Arguments<'_>) -> Result<Done, ToolError> {
    let text = arguments.path()?.ok_or_else(|| ToolError::invalid("path is required."))?;
    let path = target::parse(fs, text)?;
    if path.is_root() {
        return Err(ToolError::invalid("path must reference a file or directory."));
    }
    if let Some(expected) = arguments.if_match()? {
        if fs.stat_entry(&path).is_ok_and(|stat| stat.kind == Kind::Directory) {
            return Err(ToolError::invalid("if_match is about a file; the path is a directory."));
        }
        target::check_match(fs, &path, Some(expected))?;
    }
    let removed = fs.delete(&path, Recursion::Recursive).map_err(|error| match error {
        FsError::NotFound { .. } | FsError::NotDirectory { .. } => {
            ToolError::new("not_found", "No files matched the provided path.")
        }
        other => other.into(),
    })?;
    let noun = if removed == 1 { "entry" } else { "entries" };
    let message = format!("Deleted {removed} {noun} under {path}.");
    Ok(Done { result: json!({"removed": removed}), message, changes: vec![Change::Removed { path }] })
}
