//! `ls`: lists a directory's own entries.

use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::forms::tree::tree;
use super::timestamp::rfc3339;
use super::{Done, ToolError, counted, next_call, range, target};
use crate::budget::Budget;
use crate::error::FsError;
use crate::filesystem::Filesystem;
use crate::filesystem::entry::{Entry, Kind};
use crate::limits::Limits;

pub(super) fn ls(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    if arguments.has("depth") {
        arguments.only("depth", &["path", "file_path", "depth", "hidden", "exclude"])?;
        return tree(fs, arguments, limits);
    }
    let path = target::directory(fs, arguments)?;
    let (offset, limit) = (arguments.offset()?, arguments.limit(limits.list_entries)?);
    let listing = fs.list(&path, offset.saturating_add(limit)).map_err(|error| match error {
        FsError::NotFound { .. } => ToolError::new("not_found", format!("Directory does not exist: {path}")),
        FsError::NotDirectory { path: at } if at == path => {
            ToolError::new("not_directory", "Cannot list a file path; provide a directory.").at(&path)
        }
        other => other.into(),
    })?;
    let entries = listing.entries.get(offset..).unwrap_or_default();
    let shown = Budget::new(limits).entries(entries.iter().map(shown));
    let entries = &entries[..shown.len()];
    let directories = entries.iter().filter(|entry| entry.stat.kind == Kind::Directory).count();
    let files = entries.len() - directories;
    let mut message = format!(
        "Listed directory {path} ({}, {}).",
        counted(directories, "subdir", "subdirs"),
        counted(files, "file", "files")
    );
    let mut result = Map::new();
    let end = offset.saturating_add(shown.len());
    result.insert("entries".to_owned(), shown.into());
    if entries.len() < listing.total {
        result.insert("total".to_owned(), listing.total.into());
        message.push_str(&format!(" Of {} entries, {} are shown.", listing.total, range(offset, end)));
    }
    if !entries.is_empty() && end < listing.total {
        result.insert("truncated".to_owned(), Value::Bool(true));
        result.insert("next".to_owned(), json!({"offset": end}));
        message.push_str(&next_call("ls", end));
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
