//! What a tool answered, as text for a model: the thing itself, then only the facts that change what to do next.

use std::fmt::Write as _;

use serde_json::Value;
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
    match tool {
        ToolName::Read if result["content"].is_string() => file(result),
        ToolName::Ls => list(&result["entries"], entry),
        ToolName::Glob => list(&result["paths"], word) + cut(result),
        ToolName::Grep => list(&result["matches"], found) + cut(result),
        ToolName::Bash | ToolName::Python if result["exit_code"].is_number() => command(result, &answer.message),
        ToolName::Git if result["output"].is_string() => word(&result["output"]),
        ToolName::Eval => serde_json::to_string_pretty(result).unwrap_or_default(),
        _ => answer.message.clone(),
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(items: &Value, show: fn(&Value) -> String) -> String {
    let lines: Vec<String> = items.as_array().into_iter().flatten().map(show).collect();
    if lines.is_empty() { "(nothing)".to_owned() } else { lines.join("\n") }
}

fn entry(entry: &Value) -> String {
    let slash = if entry["kind"] == "directory" { "/" } else { "" };
    format!("{}{slash}", word(&entry["path"]))
}

fn found(found: &Value) -> String {
    format!("{}:{}:{}", word(&found["path"]), found["line"], word(&found["text"]))
}

fn cut(result: &Value) -> &'static str {
    if result["truncated"] == true { "\n(there is more than is shown)" } else { "" }
}

fn file(result: &Value) -> String {
    let mut text = word(&result["content"]);
    if result["truncated"] == true {
        let next = result["offset"].as_u64().unwrap_or(0) + result["lines"].as_u64().unwrap_or(0);
        // Writing to a String cannot fail.
        let _ = write!(text, "\n({} lines in all; go on with offset {next})", result["total_lines"]);
    }
    text
}

fn command(result: &Value, message: &str) -> String {
    let (stdout, stderr) = (word(&result["stdout"]), word(&result["stderr"]));
    let mut parts = Vec::new();
    if !stdout.is_empty() {
        parts.push(stdout);
    }
    if !stderr.is_empty() {
        parts.push(format!("[stderr]\n{stderr}"));
    }
    if result["exit_code"] != 0 || result["truncated"] == true || parts.is_empty() {
        parts.push(format!("[{message}]"));
    }
    parts.join("\n")
}
