//! Results in the words of Anthropic's text editor tool (`text_editor_20250728`).

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;
use stead_core::event::Answer;

use super::{Missing, Presented, argument, cut_line, missing};
use crate::tool::result::{Listing, Page};

pub(super) fn present(arguments: &Value, answer: &Answer) -> Presented {
    let path = argument(arguments, "path");
    let command = argument(arguments, "command");
    if let Some(error) = &answer.error {
        return match (command, error.code.as_str()) {
            ("view", "not_found") => {
                Presented::failure(&error.code, format!("The path {path} does not exist. Please provide a valid path."))
            }
            _ => Presented::failed(error),
        };
    }
    let result = answer.result.clone().unwrap_or_default();
    match command {
        "view" => view(path, arguments, result),
        "create" => Presented::success(format!("File created successfully at: {path}"), Some(result)),
        _ => edited(path, result),
    }
}

/// A directory or a page of a file.
fn view(path: &str, arguments: &Value, result: Value) -> Presented {
    let ranged = arguments.get("view_range").is_some_and(|range| !range.is_null());
    if result.get("entries").is_some() {
        let message = "The `view_range` parameter is not allowed when `path` points to a directory.";
        return match ranged {
            true => Presented::failure("invalid_arguments", message.to_owned()),
            false => Presented::success(directory(path, &result), Some(result)),
        };
    }
    let Ok(page) = serde_json::from_value::<Page>(result.clone()) else {
        return Presented::success(result.to_string(), Some(result));
    };
    if page.binary {
        let message = format!("{path} is a binary file, and the editor shows text only.");
        return Presented::failure("binary", message);
    }
    if ranged && page.lines == 0 {
        let message = format!(
            "Invalid `view_range`: {}. Its first element `{}` should be within the range of lines of the file: [1, {}]",
            arguments["view_range"],
            page.offset + 1,
            page.total_lines
        );
        return Presented::failure("invalid_arguments", message);
    }
    let mut text = numbered(path, page.content.as_deref().unwrap_or_default(), page.offset + 1);
    let (first, last, total) = (page.offset + 1, page.offset + page.lines, page.total_lines);
    let end = arguments["view_range"][1].as_u64();
    let rest = format!("`view_range` [{}, {}]", last + 1, end.map_or("-1".to_owned(), |end| end.to_string()));
    // Writing to a String cannot fail.
    let _ = match missing(&page, end.map(|end| end.saturating_sub(page.offset))) {
        Missing::Nothing => Ok(()),
        Missing::Lines => writeln!(text, "(lines {first} to {last} of {total}; view the rest with {rest})"),
        Missing::RestOfLine if end.unwrap_or(total).min(total) > last => {
            writeln!(text, "({}; view the lines after it with {rest})", cut_line(&page))
        }
        Missing::RestOfLine => writeln!(text, "({})", cut_line(&page)),
    };
    Presented::success(text, Some(result))
}

/// Lists a directory as `find -maxdepth 2` does, without hidden entries.
fn directory(path: &str, result: &Value) -> String {
    let entries = serde_json::from_value::<Listing>(result.clone()).map(|listing| listing.entries).unwrap_or_default();
    let root = argument(result, "path").trim_matches('/').to_owned();
    let shown = path.trim_end_matches('/');
    let mut text =
        format!("Here's the files and directories up to 2 levels deep in {path}, excluding hidden items:\n{path}\n");
    for entry in &entries {
        let below = entry.path.trim_start_matches('/');
        let below = below.strip_prefix(&root).unwrap_or(below).trim_start_matches('/');
        let _ = writeln!(text, "{shown}/{below}");
    }
    if result["truncated"] == true {
        text.push_str("(there are more; view a directory further down)\n");
    }
    text
}

#[derive(Deserialize)]
struct Edited {
    snippet: Option<Snippet>,
}

#[derive(Deserialize)]
struct Snippet {
    first: u64,
    text: String,
}

fn edited(path: &str, result: Value) -> Presented {
    let mut text = format!("The file {path} has been edited. ");
    if let Ok(Edited { snippet: Some(snippet) }) = serde_json::from_value(result.clone()) {
        text.push_str(&numbered(&format!("a snippet of {path}"), &snippet.text, snippet.first));
    }
    text.push_str("Review the changes and make sure they are as expected. Edit the file again if necessary.");
    Presented::success(text, Some(result))
}

/// Numbers the lines as `cat -n` does.
fn numbered(what: &str, content: &str, first: u64) -> String {
    let mut text = format!("Here's the result of running `cat -n` on {what}:\n");
    for (number, line) in (first..).zip(content.strip_suffix('\n').unwrap_or(content).split('\n')) {
        let _ = writeln!(text, "{number:6}\t{line}");
    }
    text
}
