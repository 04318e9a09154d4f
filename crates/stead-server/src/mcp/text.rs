//! Renders tool results as text for a model: first the content, then only facts that affect the
//! next step.

use std::fmt::Write as _;

use stead_api::exec::OutputPage;
use stead_api::file::FileKind;
use stead_api::tool::result::{CommandResult, ListedEntry, Match, Page, ReadFile, ToolOutput};
use stead_core::event::Answer;
use stead_core::tool::ToolName;

/// The way in which a caller reads the lines after a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pages {
    /// The tool has the parameter `offset`.
    ByOffset,
    /// The tool shows the first page only.
    First,
}

pub(super) fn of(tool: ToolName, answer: &Answer, pages: Pages) -> String {
    if let Some(error) = &answer.error {
        return match &error.hint {
            Some(hint) => format!("{}\n{hint}", error.message),
            None => error.message.clone(),
        };
    }
    let Some(result) = &answer.result else { return answer.message.clone() };
    match ToolOutput::of(tool, result) {
        ToolOutput::Page(Page { binary: true, .. }) => answer.message.clone(),
        ToolOutput::Page(Page { content: Some(content), truncated, total_lines, .. }) => {
            let mut text = content;
            if truncated {
                // Writing to a String cannot fail.
                let _ = match pages {
                    Pages::ByOffset => write!(text, "\n({})", answer.message),
                    Pages::First => write!(text, "\n({total_lines} lines in all; the others are not shown)"),
                };
            }
            text
        }
        ToolOutput::Pages(several) => {
            let text = several.files.iter().map(one_file).collect::<Vec<_>>().join("\n");
            // The message names the paths that do not fit.
            match (several.truncated, pages) {
                (true, Pages::ByOffset) => format!("{text}\n({})", answer.message),
                (truncated, _) => text + cut(truncated),
            }
        }
        ToolOutput::Listing(listing) => list(listing.entries.iter().map(entry)) + cut(listing.truncated),
        ToolOutput::Paths(found) => list(found.paths) + cut(found.truncated),
        ToolOutput::Matches(found) => {
            let counts = found.counts.iter().map(|file| format!("{}:{}", file.path, file.count));
            let lines = found.matches.iter().map(one).chain(found.files.iter().cloned()).chain(counts);
            list(lines) + cut(found.truncated)
        }
        ToolOutput::Command(ended) => command(ended, &answer.message),
        ToolOutput::Git(ended) => ended.output,
        ToolOutput::Output(page) => output(page, &answer.message),
        ToolOutput::Evaluation(_) => serde_json::to_string_pretty(result).unwrap_or_default(),
        ToolOutput::Entry(_) => serde_json::to_string_pretty(result).unwrap_or_default(),
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

/// A match in the form of `grep`, with its context.
fn one(found: &Match) -> String {
    let Match { path, line, before, after, .. } = found;
    let first = line.saturating_sub(before.len() as u64);
    let next = line + found.text.lines().count().max(1) as u64;
    let context = |(number, text): (u64, &String)| format!("{path}-{number}-{text}");
    let before = (first..).zip(before).map(context);
    let after = (next..).zip(after).map(context);
    before.chain([format!("{path}:{line}:{}", found.text)]).chain(after).collect::<Vec<_>>().join("\n")
}

fn one_file(file: &ReadFile) -> String {
    let content = match (&file.error, &file.content) {
        (Some(error), _) => format!("({})", error.message),
        (None, _) if file.binary == Some(true) => "(a binary file; its content is not shown)".to_owned(),
        (None, content) => content.clone().unwrap_or_default(),
    };
    let more = match (file.truncated, file.lines, file.total_lines) {
        (Some(true), Some(lines), Some(total)) => format!("\n({lines} of {total} lines)"),
        _ => String::new(),
    };
    format!("==> {} <==\n{content}{more}", file.path)
}

fn cut(truncated: bool) -> &'static str {
    if truncated { "\n(there is more than is shown)" } else { "" }
}

fn output(page: OutputPage, message: &str) -> String {
    let mut text: String = page.chunks.into_iter().map(|chunk| chunk.data).collect();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + &format!("[{message}]")
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
    match ended.notice {
        // The message contains the notice.
        _ if !plain || parts.is_empty() => parts.push(format!("[{message}]")),
        Some(notice) => parts.push(format!("[{notice}]")),
        None => {}
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text(tool: ToolName, result: Value, pages: Pages) -> String {
        of(tool, &Answer { result: Some(result), error: None, message: "Call it again.".to_owned() }, pages)
    }

    #[test]
    fn a_cut_list_says_so() {
        let listing = |truncated: bool| {
            let result = json!({"entries": [{"path": "a", "kind": "file", "size": 1}], "truncated": truncated});
            text(ToolName::Ls, result, Pages::First)
        };
        assert_eq!((listing(false).as_str(), listing(true).as_str()), ("a", "a\n(there is more than is shown)"));
    }

    #[test]
    fn several_files_that_do_not_fit_say_so() {
        let read = |truncated: bool, pages: Pages| {
            let result = json!({"files": [{"path": "a", "content": "x"}], "truncated": truncated});
            text(ToolName::Read, result, pages)
        };
        assert_eq!(read(false, Pages::ByOffset), "==> a <==\nx");
        assert_eq!(read(true, Pages::ByOffset), "==> a <==\nx\n(Call it again.)");
        assert_eq!(read(true, Pages::First), "==> a <==\nx\n(there is more than is shown)");
    }
}
