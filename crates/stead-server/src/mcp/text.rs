//! Renders tool results as text for a model: first the content, then only facts that affect the
//! next step.

use std::fmt::Write as _;

use stead_api::file::FileKind;
use stead_api::tool::result::{CommandResult, ListedEntry, Match, Page, ToolOutput};
use stead_core::event::Answer;
use stead_core::tool::ToolName;

pub(super) fn of(tool: ToolName, answer: &Answer) -> String {
    if let Some(error) = &answer.error {
        return match &error.hint {
            Some(hint) => format!("{}\n{hint}", error.message),
            None => error.message.clone(),
        };
    }
    let Some(result) = &answer.result else { return answer.message.clone() };
    match ToolOutput::of(tool, result) {
        ToolOutput::Page(Page { content: Some(content), offset, lines, total_lines, truncated, .. }) => {
            let mut text = content;
            if truncated {
                // Writing to a String cannot fail.
                let _ = write!(text, "\n({total_lines} lines in all; go on with offset {})", offset + lines);
            }
            text
        }
        ToolOutput::Listing(listing) => list(listing.entries.iter().map(entry)),
        ToolOutput::Paths(found) => list(found.paths) + cut(found.truncated),
        ToolOutput::Matches(found) => list(found.matches.iter().map(one)) + cut(found.truncated),
        ToolOutput::Command(ended) => command(ended, &answer.message),
        ToolOutput::Git(ended) => ended.output,
        ToolOutput::Evaluation(_) => serde_json::to_string_pretty(result).unwrap_or_default(),
        ToolOutput::Page(_) | ToolOutput::Other => answer.message.clone(),
    }
}

fn list(lines: impl IntoIterator<Item = String>) -> String {
    let lines: Vec<String> = lines.into_iter().collect();
    if lines.is_empty() { "(nothing)".to_owned() } else { lines.join("\n") }
}

fn entry(entry: &ListedEntry) -> String {
    let slash = if entry.kind == FileKind::Directory { "/" } else { "" };
    format!("{}{slash}", entry.path)
}

fn one(found: &Match) -> String {
    format!("{}:{}:{}", found.path, found.line, found.text)
}

fn cut(truncated: bool) -> &'static str {
    if truncated { "\n(there is more than is shown)" } else { "" }
}

fn command(ended: CommandResult, message: &str) -> String {
    let plain = ended.exit_code == 0 && !ended.truncated;
    let mut parts = Vec::new();
    if !ended.stdout.is_empty() {
        parts.push(ended.stdout);
    }
    if !ended.stderr.is_empty() {
        parts.push(format!("[stderr]\n{}", ended.stderr));
    }
    if !plain || parts.is_empty() {
        parts.push(format!("[{message}]"));
    }
    parts.join("\n")
}
