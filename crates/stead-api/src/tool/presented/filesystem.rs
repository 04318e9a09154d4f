//! Results in the words of the reference MCP server for files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};
use stead_core::content::binding::Adapter;
use stead_core::event::Answer;
use stead_core::plan::WORKSPACE_ROOT;

use super::{Block, Missing, Outcome, Presented, argument, cut_line, missing, noted};
use crate::file::FileKind;
use crate::tool::result::{ListedEntry, Listing, Page, Paths};

pub(super) fn present(adapter: Adapter, arguments: &Value, answer: &Answer) -> Presented {
    if let Some(error) = &answer.error {
        return Presented::failed(error);
    }
    let result = answer.result.clone().unwrap_or_default();
    let path = argument(arguments, "path");
    let text = match adapter {
        Adapter::McpMedia => return media(path, &result),
        Adapter::McpRead => match serde_json::from_value::<Page>(result) {
            Ok(page) if page.binary => {
                return Presented::failure("binary", format!("{path} is not text. Use read_media_file."));
            }
            Ok(page) if arguments.get("tail").is_some_and(|tail| !tail.is_null()) => {
                let truncated = json!({"truncated": page.truncated});
                noted(page.content.unwrap_or_default(), &truncated)
            }
            Ok(page) => read(arguments, &page),
            Err(_) => answer.message.clone(),
        },
        Adapter::McpReadMany => many(arguments, &result).unwrap_or_else(|| answer.message.clone()),
        Adapter::McpWrite => format!("Successfully wrote to {path}"),
        Adapter::McpEdit => noted(diff(path, argument(&result, "diff")), &result),
        Adapter::McpMkdir => format!("Successfully created directory {path}"),
        Adapter::McpList => {
            let entry = |entry: &ListedEntry| format!("{} {}", kind(entry), name(entry));
            noted(lines(entries(&result).iter().map(entry)), &result)
        }
        Adapter::McpSizes => {
            let mut text = sizes(entries(&result), argument(arguments, "sortBy"));
            if result["truncated"] == true {
                text.push_str("\n(the totals count only these entries)");
            }
            noted(text, &result)
        }
        Adapter::McpTree => tree(&result),
        Adapter::McpMove => {
            format!("Successfully moved {} to {}", argument(arguments, "source"), argument(arguments, "destination"))
        }
        Adapter::McpSearch => found(result),
        Adapter::McpInfo => info(&result),
        Adapter::McpRoots => format!("Allowed directories:\n{WORKSPACE_ROOT}"),
        _ => answer.message.clone(),
    };
    let structured = json!({"content": text});
    Presented::success(text, Some(structured))
}

fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.collect::<Vec<_>>().join("\n")
}

fn read(arguments: &Value, page: &Page) -> String {
    let content = page.content.clone().unwrap_or_default();
    let head = arguments.get("head").and_then(Value::as_u64);
    match missing(page, head) {
        Missing::Nothing if head.is_some() => content.strip_suffix('\n').unwrap_or(&content).to_owned(),
        Missing::Nothing => content,
        Missing::Lines => {
            let (lines, total) = (page.lines, page.total_lines);
            format!("{content}\n(the first {lines} of {total} lines; use tail for the last ones)")
        }
        Missing::RestOfLine => format!("{content}\n({})", cut_line(page)),
    }
}

/// Several files, each with its path as the caller gave it. The last ones are left out if the
/// answer is full.
fn many(arguments: &Value, result: &Value) -> Option<String> {
    let file = |file: &Value| {
        let path = argument(file, "path");
        match file.get("error").filter(|error| !error.is_null()) {
            Some(error) => format!("{path}: Error - {}", argument(error, "message")),
            None if file["binary"] == true => format!("{path}: Error - The file is not text."),
            None if file["truncated"] == true => {
                format!("{path}:\n{}\n(not everything is shown)\n", argument(file, "content"))
            }
            None => format!("{path}:\n{}\n", argument(file, "content")),
        }
    };
    let files = result.get("files")?.as_array()?;
    let paths = arguments["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
    let omitted = paths.iter().skip(files.len()).filter_map(Value::as_str);
    let omitted = omitted.map(|path| format!("{path}: Error - Not read, because the answer is full."));
    Some(files.iter().map(file).chain(omitted).collect::<Vec<_>>().join("\n---\n"))
}

fn diff(path: &str, hunks: &str) -> String {
    let file = format!("{WORKSPACE_ROOT}/{}", relative(path));
    let line = "=".repeat(67);
    let patch = format!("Index: {file}\n{line}\n--- {file}\toriginal\n+++ {file}\tmodified\n{hunks}");
    // A cut diff may end inside a line.
    let end = if patch.ends_with('\n') { "" } else { "\n" };
    let mut fence = "```".to_owned();
    while patch.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}diff\n{patch}{end}{fence}\n\n")
}

/// A path from the workspace root, as a caller may write it.
fn relative(path: &str) -> &str {
    let path =
        path.strip_prefix(WORKSPACE_ROOT).filter(|rest| rest.is_empty() || rest.starts_with('/')).unwrap_or(path);
    path.trim_matches('/')
}

fn entries(result: &Value) -> Vec<ListedEntry> {
    serde_json::from_value::<Listing>(result.clone()).map(|listing| listing.entries).unwrap_or_default()
}

fn name(entry: &ListedEntry) -> &str {
    entry.path.rsplit('/').next().unwrap_or_default()
}

fn kind(entry: &ListedEntry) -> &'static str {
    if entry.kind == FileKind::Directory { "[DIR]" } else { "[FILE]" }
}

fn sizes(mut entries: Vec<ListedEntry>, sort_by: &str) -> String {
    if sort_by == "size" {
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.size));
    }
    let directories = entries.iter().filter(|entry| entry.kind == FileKind::Directory).count();
    let total: u64 = entries.iter().filter(|entry| entry.kind != FileKind::Directory).map(|entry| entry.size).sum();
    let one = |entry: &ListedEntry| {
        let size = if entry.kind == FileKind::Directory { String::new() } else { size(entry.size) };
        let width = if size.is_empty() { 0 } else { 10 };
        format!("{} {:<30} {size:>width$}", kind(entry), name(entry))
    };
    let mut text = lines(entries.iter().map(one));
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n\nTotal: {} files, {directories} directories\nCombined size: {}",
        entries.len() - directories,
        size(total)
    );
    text
}

/// Formats a size like `1.50 KB`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let unit = (0..UNITS.len()).rev().find(|unit| bytes >> (10 * unit) > 0).unwrap_or(0);
    match unit {
        0 => format!("{bytes} B"),
        unit => format!("{:.2} {}", bytes as f64 / f64::from(1u32 << (5 * unit)).powi(2), UNITS[unit]),
    }
}

#[derive(Serialize)]
struct Node {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<Node>>,
}

/// The entries as nested JSON.
fn tree(result: &Value) -> String {
    let mut below: BTreeMap<String, Vec<ListedEntry>> = BTreeMap::new();
    for entry in entries(result) {
        let parent = entry.path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
        below.entry(parent).or_default().push(entry);
    }
    let root = argument(result, "path").trim_matches('/').to_owned();
    let text = serde_json::to_string_pretty(&nodes(&root, &mut below)).unwrap_or_default();
    if result["truncated"] == true { format!("{text}\n(there are more entries than are shown)") } else { text }
}

fn nodes(at: &str, below: &mut BTreeMap<String, Vec<ListedEntry>>) -> Vec<Node> {
    let entries = below.remove(at).unwrap_or_default();
    let node = |entry: ListedEntry| {
        let directory = entry.kind == FileKind::Directory;
        let children = directory.then(|| nodes(&entry.path, below));
        Node { name: name(&entry).to_owned(), kind: if directory { "directory" } else { "file" }, children }
    };
    entries.into_iter().map(node).collect()
}

fn found(result: Value) -> String {
    let Ok(Paths { paths, truncated, .. }) = serde_json::from_value(result) else {
        return "No matches found".to_owned();
    };
    if paths.is_empty() {
        return "No matches found".to_owned();
    }
    let mut text = lines(paths.iter().map(|path| format!("{WORKSPACE_ROOT}/{}", path.trim_start_matches('/'))));
    if truncated {
        text.push_str("\n(there are more than are shown; narrow the pattern or the path)");
    }
    text
}

/// Metadata of a file, one line each.
fn info(result: &Value) -> String {
    let kind = argument(result, "kind");
    let mode = argument(result, "mode");
    let mut text = format!("size: {}", result["size"]);
    for (name, field) in [("created", "created_at"), ("modified", "mtime")] {
        if let Some(time) = result.get(field).and_then(Value::as_str) {
            let _ = write!(text, "\n{name}: {time}");
        }
    }
    let _ = write!(text, "\nisDirectory: {}\nisFile: {}", kind == "directory", kind == "file");
    if !mode.is_empty() {
        let _ = write!(text, "\npermissions: {}", &mode[mode.len().saturating_sub(3)..]);
    }
    text
}

fn media(path: &str, result: &Value) -> Presented {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).unwrap_or_default();
    let media_type = match extension.as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "bmp" => "image/bmp",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "ogg" => "audio/ogg",
        "flac" => "audio/flac",
        _ => "application/octet-stream",
    };
    let data = argument(result, "base64").to_owned();
    let block = match media_type.split('/').next() {
        Some("image") => Block::Image { data, media_type },
        Some("audio") => Block::Audio { data, media_type },
        _ => Block::File { uri: format!("file://{WORKSPACE_ROOT}/{}", relative(path)), data, media_type },
    };
    Presented { block, structured: None, outcome: Outcome::Success }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_the_reference_server_does() {
        for (bytes, text) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KB"), (5 << 20, "5.00 MB")] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn a_tree_has_children_only_in_directories() {
        let entry = |path: &str, kind: &str| json!({"path": path, "kind": kind, "size": 0});
        let result = json!({"path": "/", "entries": [entry("a", "directory"), entry("a/b.txt", "file"), entry("c", "directory")]});
        let expected = json!([
            {"name": "a", "type": "directory", "children": [{"name": "b.txt", "type": "file"}]},
            {"name": "c", "type": "directory", "children": []},
        ]);
        assert_eq!(serde_json::from_str::<Value>(&tree(&result)).unwrap(), expected);
    }
}
