//! `glob`: finds files by name.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::forms::tree::search;
use super::{Done, ToolError, brief, counted, next_call, target};
use crate::budget::Budget;
use crate::filesystem::{Filesystem, Ignoring};
use crate::limits::Limits;
use crate::search::{GlobQuery, Hidden};

/// Maximum number of results that a call can skip.
const MOST_SKIPPED: usize = 1_000_000;

pub(super) fn glob(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let pattern = arguments.required_text("pattern")?.trim();
    if pattern.is_empty() {
        return Err(ToolError::invalid("Pattern must not be empty."));
    }
    if arguments.flag("directories")? {
        return search(fs, arguments, limits);
    }
    let path = target::directory(fs, arguments)?;
    let (offset, limit) = (arguments.offset_within(MOST_SKIPPED)?, arguments.limit(limits.glob_matches)?);
    let found = fs.glob(&GlobQuery {
        path: path.clone(),
        pattern: pattern.to_owned(),
        hidden: hidden(arguments)?,
        ignoring: ignoring(arguments)?,
        limit: offset + limit,
    })?;
    let asked = found.paths.get(offset..).unwrap_or_default();
    let paths = Budget::new(limits).entries(asked.iter().map(|path| Value::from(path.to_string())));
    let truncated = found.truncated || paths.len() < asked.len();
    let count = counted(paths.len(), "match", "matches");
    let mut message = format!("Found {count} under {path} for pattern '{}'.", brief(pattern));
    let end = offset + paths.len();
    let mut result = json!({"paths": paths, "truncated": truncated});
    if truncated {
        result["next"] = json!({"offset": end});
        message.push_str(&next_call("glob", end));
    }
    Ok(Done { result, message, changes: Vec::new() })
}

pub(super) fn hidden(arguments: &Arguments<'_>) -> Result<Hidden, ToolError> {
    Ok(if arguments.flag("hidden")? { Hidden::Included } else { Hidden::Skipped })
}

pub(super) fn ignoring(arguments: &Arguments<'_>) -> Result<Ignoring, ToolError> {
    Ok(if arguments.flag("gitignore")? { Ignoring::GitIgnore } else { Ignoring::Nothing })
}
