//! `grep`: finds lines by pattern.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::glob::{hidden, ignoring};
use super::{Done, ToolError, brief, counted, next_call, target};
use crate::budget::Budget;
use crate::encoding::Encoding;
use crate::filesystem::Filesystem;
use crate::limits::Limits;
use crate::search::{Case, GrepFile, GrepFound, GrepMatch, GrepMode, GrepQuery, LineSpan};

/// Maximum number of lines before or after a match.
const MOST_CONTEXT: usize = 100;

/// Maximum number of results that a call can skip. They are kept in memory until it ends. Fewer
/// can be skipped if the lines around them take too much memory.
const MOST_SKIPPED: usize = 10_000;

pub(super) fn grep(fs: &dyn Filesystem, arguments: &Arguments<'_>, limits: &Limits) -> Result<Done, ToolError> {
    let pattern = arguments.required_text("pattern")?;
    if pattern.is_empty() {
        return Err(ToolError::invalid("Pattern must not be empty."));
    }
    let path = target::directory(fs, arguments)?;
    let filter = |name| Ok::<_, ToolError>(arguments.text(name)?.map(str::trim).filter(|text| !text.is_empty()));
    let mode = mode(arguments)?;
    let (offset, limit) = (arguments.offset_within(MOST_SKIPPED)?, arguments.limit(limits.grep_matches)?);
    let found = fs.grep(&GrepQuery {
        path: path.clone(),
        pattern: pattern.to_owned(),
        glob: filter("glob")?.map(str::to_owned),
        file_type: filter("type")?.map(str::to_owned),
        mode,
        span: if arguments.flag("multiline")? { LineSpan::Several } else { LineSpan::One },
        hidden: hidden(arguments)?,
        ignoring: ignoring(arguments)?,
        case: case(arguments)?,
        limit: offset + limit,
    })?;
    let mut budget = Budget::new(limits);
    let count = found.matches.len().max(found.files.len());
    if found.truncated && count <= offset {
        let message = format!("offset must be less than {count} with this many lines around each match.");
        return Err(ToolError::invalid(message).hinting("narrow the search, or ask for fewer lines around each match"));
    }
    let shown = budget.entries(entries(&found, mode).skip(offset));
    let truncated = found.truncated || shown.len() < count.saturating_sub(offset);
    let (end, quoted) = (offset + shown.len(), brief(pattern));
    let mut message = match mode {
        GrepMode::Content { .. } => {
            format!("Found {} under {path} for '{quoted}'.", counted(shown.len(), "match", "matches"))
        }
        GrepMode::Files | GrepMode::Count => {
            format!("Found matches in {} under {path} for '{quoted}'.", counted(shown.len(), "file", "files"))
        }
    };
    let mut result = json!({"truncated": truncated});
    result[field(mode)] = shown.into();
    if truncated && end > MOST_SKIPPED {
        message.push_str(" There are more: narrow the pattern, the path or the glob.");
    } else if truncated {
        result["next"] = json!({"offset": end});
        message.push_str(&next_call("grep", end));
    }
    if !found.skipped.is_empty() {
        let count = counted(found.skipped.len(), "file", "files");
        message.push_str(&format!(" {count} could not be searched to the end; see skipped."));
        let skipped = found.skipped.iter().map(|path| Value::from(path.to_string()));
        result["skipped"] = budget.entries(skipped).into();
    }
    Ok(Done { result, message, changes: Vec::new() })
}

/// The name of the result's list.
const fn field(mode: GrepMode) -> &'static str {
    match mode {
        GrepMode::Content { .. } => "matches",
        GrepMode::Files => "files",
        GrepMode::Count => "counts",
    }
}

/// The results as JSON, each converted only when it is taken.
fn entries(found: &GrepFound, mode: GrepMode) -> impl Iterator<Item = Value> {
    let matches = found.matches.iter().map(move |one| match mode {
        GrepMode::Content { before: 0, after: 0 } => shown_match(one),
        _ => shown_in_context(one),
    });
    let files = found.files.iter().map(move |file: &GrepFile| match mode {
        GrepMode::Count => json!({"path": file.path.to_string(), "count": file.count}),
        _ => file.path.to_string().into(),
    });
    matches.chain(files)
}

fn mode(arguments: &Arguments<'_>) -> Result<GrepMode, ToolError> {
    let around = arguments.context("context")?;
    let (before, after) = (arguments.context("before")?, arguments.context("after")?);
    let mode = match arguments.text("output_mode")? {
        None | Some("content") => {
            let lines = |own: Option<usize>| own.or(around).unwrap_or(0);
            return Ok(GrepMode::Content { before: lines(before), after: lines(after) });
        }
        Some("files") => GrepMode::Files,
        Some("count") => GrepMode::Count,
        Some(_) => return Err(ToolError::invalid("output_mode must be one of content, files, count.")),
    };
    match around.or(before).or(after) {
        Some(_) => Err(ToolError::invalid("context, before and after are for output_mode content.")),
        None => Ok(mode),
    }
}

fn case(arguments: &Arguments<'_>) -> Result<Case, ToolError> {
    let ignored = arguments.flag("ignore_case")?;
    let sensitive = arguments.flag("case_sensitive")?;
    match (ignored, arguments.has("case_sensitive"), sensitive) {
        (true, true, true) => Err(ToolError::invalid("ignore_case and case_sensitive contradict each other.")),
        (true, ..) | (false, true, false) => Ok(Case::Insensitive),
        _ => Ok(Case::Sensitive),
    }
}

impl Arguments<'_> {
    fn context(&self, name: &str) -> Result<Option<usize>, ToolError> {
        let lines = self.size(name)?;
        match lines.filter(|lines| *lines > MOST_CONTEXT) {
            Some(_) => Err(ToolError::invalid(format!("{name} must be at most {MOST_CONTEXT} lines."))),
            None => Ok(lines),
        }
    }
}

fn shown_match(found: &GrepMatch) -> Value {
    let mut shown =
        json!({"path": found.path.to_string(), "line": found.line, "column": found.column, "text": found.text});
    if found.encoding != Encoding::Utf8 {
        shown["encoding"] = found.encoding.as_str().into();
    }
    shown
}

fn shown_in_context(found: &GrepMatch) -> Value {
    let mut shown = shown_match(found);
    shown["before"] = json!(found.before);
    shown["after"] = json!(found.after);
    shown
}
