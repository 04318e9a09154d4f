//! `ls`: lists a directory's own entries.

use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::timestamp::rfc3339;
use super::{Done, ToolError, counted, target};
use crate::error::FsError;
use crate::filesystem::Filesystem;
use crate::filesystem::entry::{Entry, Kind};
use crate::limits::Limits;

pub(super) fn ls(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let path = target::directory(fs, arguments)?;
    let listing = fs.list(&path, limits.list_entries).map_err(|error| match error {
        FsError::NotFound { .. } => ToolError::new("not_found", format!("Directory does not exist: {path}")),
        FsError::NotDirectory { path: at } if at == path => {
            ToolError::new("not_directory", "Cannot list a file path; provide a directory.")
        }
        other => other.into(),
    })?;
    let directories = listing.entries.iter().filter(|entry| entry.stat.kind == Kind::Directory).count();
    let files = listing.entries.len() - directories;
    let mut message = format!(
        "Listed directory {path} ({}, {}).",
        counted(directories, "subdir", "subdirs"),
        counted(files, "file", "files")
    );
    let mut result = Map::new();
    result.insert("entries".to_owned(), listing.entries.iter().map(shown).collect());
    if listing.entries.len() < listing.total {
        result.insert("truncated".to_owned(), Value::Bool(true));
        result.insert("total".to_owned(), listing.total.into());
        message.push_str(&format!(" Only the first {} of {} entries are shown.", listing.entries.len(), listing.total));
    }
    Ok(Done { result: result.into(), message, changes: Vec::new() })
}

fn shown(entry: &Entry) -> Value {
    let mut shown = Map::new();
    shown.insert("path".to_owned(), entry.path.to_string().into());
    if let Some(lossy) = entry.path.lossy() {
        shown.insert("display".to_owned(), lossy.into());
    }
    shown.insert("kind".to_owned(), entry.stat.kind.as_str().into());
    shown.insert("size".to_owned(), entry.stat.size.into());
    if let Some(version) = entry.stat.version {
        shown.insert("version".to_owned(), json!(version));
    }
    shown.insert("mtime".to_owned(), rfc3339(entry.stat.updated_at_millis).into());
    shown.into()
}
