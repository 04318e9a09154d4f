//! `glob`: finds files by name.

use serde_json::json;

use super::arguments::Arguments;
use super::{Done, ToolError, counted, target};
use crate::filesystem::{Filesystem, Ignoring};
use crate::limits::Limits;
use crate::search::{GlobQuery, Hidden};

pub(super) fn glob(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let pattern = arguments.required_text("pattern")?.trim();
    if pattern.is_empty() {
        return Err(ToolError::invalid("Pattern must not be empty."));
    }
    let path = target::directory(fs, arguments)?;
    let found = fs.glob(&GlobQuery {
        path: path.clone(),
        pattern: pattern.to_owned(),
        hidden: hidden(arguments)?,
        ignoring: ignoring(arguments)?,
        limit: arguments.limit(limits.glob_matches)?,
    })?;
    let mut message =
        format!("Found {} under {path} for pattern '{pattern}'.", counted(found.paths.len(), "match", "matches"));
    if found.truncated {
        message.push_str(" There are more; narrow the pattern or the path.");
    }
    let paths: Vec<String> = found.paths.iter().map(ToString::to_string).collect();
    Ok(Done { result: json!({"paths": paths, "truncated": found.truncated}), message, changes: Vec::new() })
}

pub(super) fn hidden(arguments: &Arguments<'_>) -> Result<Hidden, ToolError> {
    Ok(if arguments.flag("hidden")? { Hidden::Included } else { Hidden::Skipped })
}

pub(super) fn ignoring(arguments: &Arguments<'_>) -> Result<Ignoring, ToolError> {
    Ok(if arguments.flag("gitignore")? { Ignoring::GitIgnore } else { Ignoring::Nothing })
}
