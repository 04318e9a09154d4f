//! `rm`: removes an entry and everything in it.

use serde_json::json;

use super::arguments::Arguments;
use super::{Done, ToolError, target};
use crate::error::FsError;
use crate::filesystem::change::Change;
use crate::filesystem::{Filesystem, Recursion};

pub(super) fn rm(fs: &mut dyn Filesystem, arguments: &Arguments<'_>) -> Result<Done, ToolError> {
    let text = arguments.path()?.ok_or_else(|| ToolError::invalid("path is required."))?;
    let path = target::parse(fs, text)?;
    if path.is_root() {
        return Err(ToolError::invalid("path must reference a file or directory."));
    }
    path.check_storable()?;
    target::check_entry_match(fs, &path, arguments.if_match()?)?;
    let removed = fs.delete(&path, Recursion::Recursive).map_err(|error| match error {
        FsError::NotFound { .. } | FsError::NotDirectory { .. } => {
            ToolError::new("not_found", "No files matched the provided path.").at(&path)
        }
        other => other.into(),
    })?;
    let noun = if removed == 1 { "entry" } else { "entries" };
    let message = format!("Deleted {removed} {noun} under {path}.");
    Ok(Done { result: json!({"removed": removed}), message, changes: vec![Change::Removed { path }] })
}
