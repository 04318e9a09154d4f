//! `edit` with `old_str` and `new_str`: replaces the only occurrence of a text, in the words of the
//! text editor that Anthropic's models know. The result shows the lines around the change.

use memchr::memmem::find_iter;
use serde_json::{Value, json};

use crate::budget::Budget;
use crate::error::FsError;
use crate::filesystem::change::Change;
use crate::filesystem::{Filesystem, WriteMode};
use crate::limits::Limits;
use crate::tools::arguments::Arguments;
use crate::tools::edit::{check_text, editable};
use crate::tools::{Done, ToolError, target};

/// Number of lines shown before and after a change.
const AROUND: usize = 4;
/// Maximum characters of a text that an error quotes.
const QUOTED: usize = 2_000;
/// Maximum number of occurrences that an error lists.
const LISTED: usize = 100;

pub(in crate::tools) fn str_replace(
    fs: &mut dyn Filesystem,
    arguments: &Arguments<'_>,
    limits: &Limits,
    now_millis: i64,
) -> Result<Done, ToolError> {
    arguments.only("old_str", &["path", "file_path", "old_str", "new_str", "if_match"])?;
    let path = target::file(fs, arguments)?;
    let (old, new) = (arguments.required_text("old_str")?, arguments.text("new_str")?.unwrap_or_default());
    if old.is_empty() {
        return Err(ToolError::invalid("old_str must not be empty."));
    }
    check_text("old_str", old, limits)?;
    check_text("new_str", new, limits)?;
    check_exists(fs, arguments)?;
    let file = editable(fs, &path, arguments.if_match()?, limits)?;
    let content = &file.text;
    let places: Vec<usize> = find_iter(content, old).take(LISTED).collect();
    let quoted: String = old.chars().take(QUOTED).collect();
    let shown = arguments.path()?.unwrap_or_default();
    let at = match places.as_slice() {
        [] => {
            let message =
                format!("No replacement was performed, old_str `{quoted}` did not appear verbatim in {shown}.");
            return Err(ToolError::new("not_found", message));
        }
        [at] => *at,
        _ => {
            let lines: Vec<usize> = places.iter().map(|at| line_of(content, *at) + 1).collect();
            let message = format!(
                "No replacement was performed. Multiple occurrences of old_str `{quoted}` in lines {lines:?}. Please ensure it is unique"
            );
            return Err(ToolError::new("ambiguous", message));
        }
    };
    let edited = [&content[..at], new.as_bytes(), &content[at + old.len()..]].concat();
    let snippet = snippet(&edited, line_of(content, at), new.matches('\n').count(), limits);
    let edited = file.encode(edited, limits)?;
    let written = fs.write_bytes(&path, edited.clone(), WriteMode::Overwrite, now_millis)?;
    let result = json!({
        "path": path.to_string(),
        "replacements": 1,
        "hash": written.hash.to_string(),
        "encoding": file.encoding.as_str(),
        "snippet": snippet,
    });
    let message = format!("The file {shown} has been edited.");
    Ok(Done { result, message, changes: vec![Change::Wrote { path: written.path, content: edited }] })
}

/// Checks that the path exists. The error has the editor's words.
pub(in crate::tools) fn check_exists(fs: &dyn Filesystem, arguments: &Arguments<'_>) -> Result<(), ToolError> {
    match fs.stat(&target::file(fs, arguments)?) {
        Err(FsError::NotFound { .. }) => {
            let shown = arguments.path()?.unwrap_or_default();
            let message = format!("The path {shown} does not exist. Please provide a valid path.");
            Err(ToolError::new("not_found", message))
        }
        _ => Ok(()),
    }
}

fn line_of(content: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &content[..at]).count()
}

/// Returns the lines around a change that begins at `line`, counted from 0, and ends `more` lines
/// later, as many as the budget allows. `first` is the number of the first one, counted from 1.
pub(in crate::tools) fn snippet(content: &[u8], line: usize, more: usize, limits: &Limits) -> Value {
    let first = line.saturating_sub(AROUND);
    let text = String::from_utf8_lossy(content);
    let lines: Vec<&str> = text.split('\n').skip(first).take(line + more + AROUND + 1 - first).collect();
    let mut text = lines.join("\n");
    Budget::new(limits).text(&mut text);
    json!({"first": first + 1, "text": text})
}
