//! `read` with `paths`: returns the lines of several files, each with its own result or error. They
//! share the budget of one answer.

use serde_json::{Value, json};

use super::page::Window;
use super::{is_truncated, load, shown};
use crate::budget::{Budget, json_size};
use crate::filesystem::Filesystem;
use crate::limits::Limits;
use crate::tools::arguments::Arguments;
use crate::tools::{Done, ToolError, brief, counted, target};

/// Maximum number of files in one call.
const MOST_FILES: usize = 100;

pub(super) fn read_several(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let paths = arguments.texts("paths")?;
    if paths.is_empty() || paths.len() > MOST_FILES {
        return Err(ToolError::invalid(format!("paths must have between 1 and {MOST_FILES} paths.")));
    }
    let window = Window { offset: 0, limit: arguments.limit(limits.read_lines)?, bytes: limits.output_bytes };
    let mut budget = Budget::new(limits);
    // The answer names the paths that it leaves out, unless they would take most of it.
    let names_the_rest = budget.reserve(json_size(&paths));
    let (mut failures, mut cut) = (0, 0);
    let mut files = Vec::with_capacity(paths.len());
    for (index, text) in paths.iter().enumerate() {
        if names_the_rest {
            budget.release(json_size(text));
        }
        let file = match target::parse(fs, text).and_then(|path| load(fs, &path, window)) {
            Ok(mut page) => {
                let content = std::mem::take(&mut page.content);
                let room = json_size(&described(shown(&page, 0), text));
                if !budget.take(room) && !files.is_empty() {
                    break;
                }
                page.content = content;
                let mut part = budget.part(paths.len() - index);
                page.fit(&mut part);
                budget.put_back(part);
                cut += usize::from(is_truncated(&page, 0));
                described(shown(&page, 0), text)
            }
            Err(error) => {
                let file = json!({"path": brief(text), "error": failure(error)});
                if !budget.take(json_size(&file)) && !files.is_empty() {
                    break;
                }
                failures += 1;
                file
            }
        };
        files.push(file);
    }
    let omitted = paths.len() - files.len();
    let mut message = format!("Read {}.", counted(files.len() - failures, "file", "files"));
    if failures > 0 {
        message.push_str(&format!(" {failures} could not be read; see error."));
    }
    if cut > 0 {
        message.push_str(&format!(" {} cut: read them one by one with offset.", counted(cut, "file is", "files are")));
    }
    if omitted > 0 {
        message.push_str(&format!(" The last {omitted} of paths do not fit: call read again with them."));
    }
    let rest = &paths[files.len()..];
    let mut result = json!({"files": files, "truncated": cut > 0 || omitted > 0});
    if names_the_rest && !rest.is_empty() {
        result["next"] = json!({"paths": rest});
        if arguments.has("limit") {
            result["next"]["limit"] = window.limit.into();
        }
    }
    Ok(Done { result, message, changes: Vec::new() })
}

/// Adds the path as the caller gave it.
fn described(mut file: Value, path: &str) -> Value {
    file["path"] = path.into();
    file
}

fn failure(error: ToolError) -> Value {
    let error = error.clipped();
    let mut shown = json!({"code": error.code, "message": error.message});
    if let Some(hint) = error.hint {
        shown["hint"] = hint.into();
    }
    shown
}
