//! `stat`: returns the metadata of one entry. A link is described itself, not followed.

use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::timestamp::rfc3339;
use super::{Done, ToolError, target};
use crate::error::FsError;
use crate::filesystem::Filesystem;
use crate::filesystem::entry::{Kind, Stat};
use crate::limits::Limits;
use crate::path::WorkspacePath;

pub(super) fn stat(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let text = arguments.path()?.ok_or_else(|| ToolError::invalid("path is required."))?;
    let path = target::parse(fs, text)?;
    path.check_storable()?;
    let stat = fs.stat_entry(&path).map_err(|error| match error {
        FsError::NotFound { .. } => ToolError::new("not_found", format!("No file or directory exists at {path}")),
        other => other.into(),
    })?;
    let mut result = described(&path, &stat);
    let kind = if stat.kind == Kind::Special { "special file" } else { stat.kind.as_str() };
    let mut message = format!("{path} is a {kind}");
    match stat.kind {
        Kind::File if stat.size > limits.edit_bytes => {
            message.push_str(&format!(" of {} bytes; its hash is left out because it is large", stat.size));
        }
        Kind::File => {
            let hash = fs.hash(&path).map_err(target::unreadable)?;
            result.insert("hash".to_owned(), hash.to_string().into());
            message.push_str(&format!(" of {} bytes", stat.size));
        }
        Kind::Symlink => {
            let link = String::from_utf8_lossy(&fs.read_link(&path)?).into_owned();
            message.push_str(&format!(" to {link}"));
            result.insert("target".to_owned(), link.into());
            // Absent if the target does not exist or is outside.
            if let Ok(found) = fs.stat(&path) {
                result.insert("target_kind".to_owned(), found.kind.as_str().into());
            }
        }
        Kind::Directory | Kind::Special => {}
    }
    message.push('.');
    Ok(Done { result: result.into(), message, changes: Vec::new() })
}

fn described(path: &WorkspacePath, stat: &Stat) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("path".to_owned(), path.to_string().into());
    if let Some(lossy) = path.lossy() {
        shown.insert("display".to_owned(), lossy.into());
    }
    shown.insert("kind".to_owned(), stat.kind.as_str().into());
    shown.insert("size".to_owned(), stat.size.into());
    shown.insert("mode".to_owned(), format!("{:04o}", stat.mode).into());
    shown.insert("mtime".to_owned(), rfc3339(stat.updated_at_millis).into());
    if let Some(version) = stat.version {
        shown.insert("version".to_owned(), json!(version));
    }
    if let Some(created) = stat.created_at_millis {
        shown.insert("created_at".to_owned(), rfc3339(created).into());
    }
    shown
}
