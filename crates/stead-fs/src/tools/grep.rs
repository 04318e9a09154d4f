//! `grep`: finds lines by pattern.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::glob::{hidden, ignoring};
use super::{Done, ToolError, counted, target};
use crate::filesystem::Filesystem;
use crate::limits::Limits;
use crate::search::{Case, GrepQuery};

pub(super) fn grep(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let pattern = arguments.required_text("pattern")?;
    if pattern.is_empty() {
        return Err(ToolError::invalid("Pattern must not be empty."));
    }
    let path = target::directory(fs, arguments)?;
    let glob = arguments.text("glob")?.map(str::trim).filter(|glob| !glob.is_empty());
    let case = if arguments.flag("ignore_case")? { Case::Insensitive } else { Case::Sensitive };
    let found = fs.grep(&GrepQuery {
        path: path.clone(),
        pattern: pattern.to_owned(),
        glob: glob.map(str::to_owned),
        hidden: hidden(arguments)?,
        ignoring: ignoring(arguments)?,
        case,
        limit: arguments.limit(limits.grep_matches)?,
    })?;
    let mut message =
        format!("Found {} under {path} for '{pattern}'.", counted(found.matches.len(), "match", "matches"));
    if found.truncated {
        message.push_str(" There are more; narrow the pattern, the path or the glob.");
    }
    if !found.skipped.is_empty() {
        let count = counted(found.skipped.len(), "file", "files");
        message.push_str(&format!(" {count} could not be searched to the end; see skipped."));
    }
    let shown = |found: &crate::search::GrepMatch| -> Value {
        json!({"path": found.path.to_string(), "line": found.line, "column": found.column, "text": found.text})
    };
    let matches: Vec<Value> = found.matches.iter().map(shown).collect();
    let mut result = json!({"matches": matches, "truncated": found.truncated});
    if !found.skipped.is_empty() {
        result["skipped"] = found.skipped.iter().map(ToString::to_string).collect();
    }
    Ok(Done { result, message, changes: Vec::new() })
}
