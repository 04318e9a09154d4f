//! Results in the words of the file tools that Codex gives to OpenAI's models.

use std::fmt::Write as _;

use serde_json::Value;
use stead_core::content::binding::Adapter;
use stead_core::event::Answer;
use stead_core::plan::WORKSPACE_ROOT;

use super::{Missing, Presented, argument, cut_line, missing, noted};
use crate::file::FileKind;
use crate::tool::result::{Listing, Matches, Page};

pub(super) fn present(adapter: Adapter, arguments: &Value, answer: &Answer) -> Presented {
    if let Some(error) = &answer.error {
        return Presented::failed(error);
    }
    let result = answer.result.clone().unwrap_or_default();
    let text = match adapter {
        Adapter::OpenaiRead => read(arguments, &result),
        Adapter::OpenaiList => list(&result),
        _ => files(&result),
    };
    Presented::success(text.unwrap_or_else(|| answer.message.clone()), Some(result))
}

/// Lines with their numbers, counted from 1.
fn read(arguments: &Value, result: &Value) -> Option<String> {
    let page: Page = serde_json::from_value(result.clone()).ok().filter(|page: &Page| !page.binary)?;
    let content = page.content.clone().unwrap_or_default();
    if content.is_empty() {
        return Some(format!("(the file has {} lines)", page.total_lines));
    }
    let lines = content.strip_suffix('\n').unwrap_or(&content).split('\n');
    let mut text = (page.offset + 1..)
        .zip(lines)
        .map(|(number, line)| format!("L{number}: {line}"))
        .collect::<Vec<_>>()
        .join("\n");
    let (next, total) = (page.offset + page.lines + 1, page.total_lines);
    let asked = arguments.get("limit").and_then(Value::as_u64);
    // Writing to a String cannot fail.
    let _ = match missing(&page, asked) {
        Missing::Nothing => Ok(()),
        Missing::Lines => write!(text, "\n({total} lines in all; go on with offset {next})"),
        Missing::RestOfLine if next <= total && asked != Some(1) => {
            write!(text, "\n({}; go on with offset {next})", cut_line(&page))
        }
        Missing::RestOfLine => write!(text, "\n({})", cut_line(&page)),
    };
    Some(text)
}

/// Names, indented by their depth. A directory ends in `/`, a link in `@`.
fn list(result: &Value) -> Option<String> {
    let listing: Listing = serde_json::from_value(result.clone()).ok()?;
    let root = argument(result, "path").trim_matches('/').to_owned();
    let mut text = format!("Absolute path: {}", format!("{WORKSPACE_ROOT}/{root}").trim_end_matches('/'));
    let above = if root.is_empty() { 0 } else { root.matches('/').count() + 1 };
    for entry in &listing.entries {
        let path = entry.path.trim_start_matches('/');
        let depth = path.matches('/').count().saturating_sub(above);
        let name = path.rsplit('/').next().unwrap_or_default();
        let mark = match entry.kind {
            FileKind::File => "",
            FileKind::Directory => "/",
            FileKind::Symlink => "@",
            FileKind::Special => "?",
        };
        let _ = write!(text, "\n{}{name}{mark}", "  ".repeat(depth));
    }
    if result["truncated"] == true {
        text.push_str("\n(there are more entries than are shown)");
    }
    Some(text)
}

/// The files that have a match.
fn files(result: &Value) -> Option<String> {
    let found: Matches = serde_json::from_value(result.clone()).ok()?;
    let mut files: Vec<String> =
        found.files.iter().map(|path| format!("{WORKSPACE_ROOT}/{}", path.trim_start_matches('/'))).collect();
    if files.is_empty() {
        return Some("No matches found.".to_owned());
    }
    files.sort_unstable();
    Some(noted(files.join("\n"), result))
}
