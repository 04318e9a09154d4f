//! Renders the answer of a tool.

use serde_json::Value;
use stead_api::run::BoundAnswer;
use stead_api::tool::result::{CommandResult, EntryStat, ListedEntry, Page, ToolOutput};
use stead_api::tool::{ToolAnswer, ToolError};
use stead_core::tool::ToolName;

use super::cell;
use crate::failure::Failure;
use crate::output::{Output, Table};

/// The parts of an answer that a person sees.
pub(crate) struct Shown<'a> {
    /// `None` for a catalog tool that is not one of Stead's own.
    pub(crate) tool: Option<ToolName>,
    pub(crate) ok: bool,
    pub(crate) result: Option<&'a Value>,
    pub(crate) error: Option<&'a ToolError>,
    pub(crate) message: &'a str,
}

impl<'a> From<&'a ToolAnswer> for Shown<'a> {
    fn from(answer: &'a ToolAnswer) -> Self {
        let ToolAnswer { tool, ok, result, error, message, .. } = answer;
        Self { tool: Some(*tool), ok: *ok, result: result.as_ref(), error: error.as_ref(), message }
    }
}

impl<'a> From<&'a BoundAnswer> for Shown<'a> {
    fn from(answer: &'a BoundAnswer) -> Self {
        let BoundAnswer { tool, ok, result, error, message, .. } = answer;
        Self { tool: tool.parse().ok(), ok: *ok, result: result.as_ref(), error: error.as_ref(), message }
    }
}

/// Prints a tool's result. A tool that ran and failed is a failure.
pub(crate) fn tool_answer<'a>(out: &Output, answer: impl Into<Shown<'a>>) -> Result<(), Failure> {
    let answer = answer.into();
    let result =
        answer.tool.zip(answer.result).map_or(ToolOutput::Other, |(tool, result)| ToolOutput::of(tool, result));
    if !answer.ok {
        // A failed evaluation prints its output, and its traceback if there is one.
        if let ToolOutput::Evaluation(evaluation) = &result {
            out.content(&evaluation.stdout)?;
            if !evaluation.stderr.is_empty() {
                out.note(evaluation.stderr.trim_end());
            }
        }
        return Err(failed(answer.error, answer.message));
    }
    match result {
        ToolOutput::Page(Page { binary: true, .. }) => out.line(&cell(&answer.message)),
        ToolOutput::Page(Page { content: Some(content), offset, lines, total_lines, truncated, .. }) => {
            out.content(&content)?;
            if truncated && offset + lines < total_lines {
                let next = offset + lines;
                out.note(&format!("{lines} of {total_lines} lines; --arg offset:={next} shows more"));
            } else if truncated {
                out.note(answer.message);
            }
            Ok(())
        }
        ToolOutput::Pages(pages) => pages.files.iter().try_for_each(|file| {
            out.line(&format!("==> {} <==", cell(&file.path)))?;
            match &file.error {
                Some(error) => out.line(&error.message),
                None => out.content(file.content.as_deref().unwrap_or_default()),
            }
        }),
        ToolOutput::Command(ended) => command(out, &ended, answer.message),
        ToolOutput::Git(ended) => {
            out.content(&ended.output)?;
            if ended.exit_code != 0 || ended.truncated {
                out.note(answer.message);
            }
            Ok(())
        }
        ToolOutput::Evaluation(evaluation) => {
            out.content(&evaluation.stdout)?;
            evaluation.value_repr.map_or(Ok(()), |value| out.line(&value))
        }
        ToolOutput::Output(page) => {
            page.chunks.iter().try_for_each(|chunk| out.content(&chunk.data))?;
            out.note(answer.message);
            Ok(())
        }
        ToolOutput::Listing(listing) => entries(out, &listing.entries),
        ToolOutput::Paths(found) => found.paths.iter().try_for_each(|path| out.line(path)),
        ToolOutput::Matches(found) => {
            found.matches.iter().try_for_each(|one| out.line(&format!("{}:{}: {}", one.path, one.line, one.text)))?;
            found.files.iter().try_for_each(|path| out.line(path))?;
            found.counts.iter().try_for_each(|file| out.line(&format!("{}: {}", file.path, file.count)))
        }
        ToolOutput::Entry(entry) => stat(out, &entry),
        ToolOutput::Page(_) | ToolOutput::Other => out.line(&cell(&answer.message)),
    }
}

/// The failure of a tool. The advice for models to review the payload is removed, because people do
/// not see the payload.
fn failed(error: Option<&ToolError>, message: &str) -> Failure {
    let message = error.map_or(message, |error| &error.message);
    let failure = Failure::new(message.replace(stead_eval::REVIEW, ""));
    match error.and_then(|error| error.hint.as_ref()) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Prints a command's output unchanged, and its exit status if it failed.
fn command(out: &Output, ended: &CommandResult, message: &str) -> Result<(), Failure> {
    out.content(&ended.stdout)?;
    let stderr = ended.stderr.trim_end();
    if !stderr.is_empty() {
        out.note(stderr);
    }
    match &ended.notice {
        // The message contains the notice.
        _ if ended.exit_code != 0 || ended.truncated => out.note(message),
        Some(notice) => out.note(notice),
        None => {}
    }
    Ok(())
}

fn stat(out: &Output, entry: &EntryStat) -> Result<(), Failure> {
    let mut table = Table::new(&["field", "value"]);
    let known = [
        ("path", Some(cell(&entry.path))),
        ("kind", Some(cell(&entry.kind))),
        ("size", Some(entry.size.to_string())),
        ("mode", Some(cell(&entry.mode))),
        ("mtime", Some(cell(&entry.mtime))),
        ("hash", entry.hash.as_ref().map(cell)),
        ("target", entry.target.as_ref().map(cell)),
        ("target_kind", entry.target_kind.as_ref().map(cell)),
        ("version", entry.version.map(|version| version.to_string())),
        ("created_at", entry.created_at.as_ref().map(cell)),
    ];
    for (field, value) in known.iter().filter_map(|(field, value)| Some((field, value.as_ref()?))) {
        table.row(&[field, value]);
    }
    out.table(&table)
}

fn entries(out: &Output, entries: &[ListedEntry]) -> Result<(), Failure> {
    let mut table = Table::new(&["path", "kind", "size"]);
    for entry in entries {
        table.row(&[&cell(&entry.path), &cell(&entry.kind), &entry.size.to_string()]);
    }
    out.table(&table)
}
