//! What a tool answered.

use serde_json::Value;

use super::cell;
use crate::failure::Failure;
use crate::output::{Output, Table};

/// Prints a tool's result. A tool that ran and failed is a failure.
pub(crate) fn tool_answer(out: &Output, answer: &Value) -> Result<(), Failure> {
    if answer["ok"] != true {
        let error = &answer["error"];
        // An evaluation that failed says where.
        if let Some(said) = answer["result"]["stderr"].as_str().filter(|said| !said.is_empty()) {
            out.content(answer["result"]["stdout"].as_str().unwrap_or_default())?;
            out.note(said.trim_end());
        }
        let message = if error["message"].is_string() { &error["message"] } else { &answer["message"] };
        // Which has just been shown: a person sees no payload.
        let failure = Failure::new(cell(message).replace(stead_eval::REVIEW, ""));
        return Err(match error["hint"].as_str() {
            Some(hint) => failure.hint(hint),
            None => failure,
        });
    }
    let result = &answer["result"];
    match answer["tool"].as_str().unwrap_or_default() {
        "read" if result["content"].is_string() => {
            out.content(result["content"].as_str().unwrap_or_default())?;
            if result["truncated"] == true {
                let (offset, lines) = (result["offset"].as_u64().unwrap_or(0), result["lines"].as_u64().unwrap_or(0));
                out.note(&format!(
                    "{} of {} lines; --arg offset:={} goes on",
                    lines,
                    cell(&result["total_lines"]),
                    offset + lines
                ));
            }
            Ok(())
        }
        "bash" | "python" if result["exit_code"].is_number() => command(out, answer),
        "git" if result["output"].is_string() => {
            out.content(result["output"].as_str().unwrap_or_default())?;
            if result["exit_code"] != 0 || result["truncated"] == true {
                out.note(&cell(&answer["message"]));
            }
            Ok(())
        }
        "eval" if result["stdout"].is_string() => evaluation(out, result),
        "ls" if result["entries"].is_array() => listing(out, &result["entries"]),
        "glob" if result["paths"].is_array() => each(out, &result["paths"], cell),
        "grep" if result["matches"].is_array() => each(out, &result["matches"], |found| {
            format!("{}:{}: {}", cell(&found["path"]), cell(&found["line"]), cell(&found["text"]))
        }),
        _ => out.line(&cell(&answer["message"])),
    }
}

/// What a command said, as it said it; how it ended only if that is worth a word.
fn command(out: &Output, answer: &Value) -> Result<(), Failure> {
    let result = &answer["result"];
    out.content(result["stdout"].as_str().unwrap_or_default())?;
    let said = result["stderr"].as_str().unwrap_or_default().trim_end();
    if !said.is_empty() {
        out.note(said);
    }
    let plain = result["exit_code"] == 0 && result["truncated"] != true;
    if !plain {
        out.note(&cell(&answer["message"]));
    }
    Ok(())
}

/// What was printed, then the value.
fn evaluation(out: &Output, result: &Value) -> Result<(), Failure> {
    out.content(result["stdout"].as_str().unwrap_or_default())?;
    match result["value_repr"].as_str() {
        Some(value) => out.line(value),
        None => Ok(()),
    }
}

fn listing(out: &Output, entries: &Value) -> Result<(), Failure> {
    let mut table = Table::new(&["path", "kind", "size"]);
    for entry in entries.as_array().into_iter().flatten() {
        table.row(&[&cell(&entry["path"]), &cell(&entry["kind"]), &cell(&entry["size"])]);
    }
    out.table(&table)
}

fn each(out: &Output, items: &Value, show: impl Fn(&Value) -> String) -> Result<(), Failure> {
    items.as_array().into_iter().flatten().try_for_each(|item| out.line(&show(item)))
}
