//! Events: what happened, one line each.

use serde_json::Value;

use super::{cell, shortened};
use crate::failure::Failure;
use crate::output::{Output, Table};

const WIDTH: usize = 160;

pub(crate) fn events(out: &Output, items: &[Value]) -> Result<(), Failure> {
    out.table(&event_table(items))
}

pub(crate) fn event_table(items: &[Value]) -> Table {
    let mut table = Table::new(&["seq", "time", "event", "what"]);
    for event in items {
        table.row(&[&cell(&event["seq"]), &clock(&event["at"]), &cell(&event["type"]), &what(event)]);
    }
    table
}

/// An event on its own line, in the columns a table would have.
pub(crate) fn event_row(event: &Value) -> String {
    let (seq, kind) = (cell(&event["seq"]), cell(&event["type"]));
    format!("{seq:>5}  {}  {kind:<20}  {}", clock(&event["at"]), what(event)).trim_end().to_owned()
}

/// The time of day with milliseconds: events are close together.
fn clock(at: &Value) -> String {
    let text = cell(at);
    let time = text.split_once('T').map(|(_, time)| time.trim_end_matches('Z').to_owned());
    time.unwrap_or(text)
}

/// The part of an event worth a line.
fn what(event: &Value) -> String {
    let text = match event["type"].as_str().unwrap_or_default() {
        "SessionCreated" => {
            format!("agent type {}, by {}", cell(&event["spec"]["agent_type"]), actor(&event["actor"]))
        }
        "ProvisionStarted" => format!("{}, attempt {}", cell(&event["provider"]), cell(&event["attempt"])),
        "WorkspaceReady" | "RemovalStarted" => cell(&event["provider"]),
        "InitStepStarted" => format!("step {}: {}", cell(&event["step"]), cell(&event["action"])),
        "InitStepFinished" => match event["failure"].is_null() {
            true => format!("step {} in {} ms", cell(&event["step"]), cell(&event["duration_ms"])),
            false => format!("step {} failed: {}", cell(&event["step"]), cell(&event["failure"]["message"])),
        },
        "ProvisionFailed" => format!("{}: {}", cell(&event["provider"]), cell(&event["failure"]["message"])),
        "SessionFailed" => cell(&event["failure"]["message"]),
        "SessionActivated" if event["degraded"] == true => "degraded: without its workspace".to_owned(),
        "WarningRaised" => format!("{}: {}", cell(&event["code"]), cell(&event["message"])),
        "ToolCallStarted" => format!("{} {}", cell(&event["tool"]), cell(&event["arguments"])),
        "ToolCallFinished" => cell(&event["answer"]["message"]),
        "ToolCallRefused" | "DigestRefused" => cell(&event["message"]),
        "InitStepProgress" | "ProvisionProgress" => {
            let (percent, detail) = (cell(&event["percent"]), event["detail"].as_str().unwrap_or_default());
            format!("{} {percent} % {detail}", cell(&event["stage"]))
        }
        "CredentialUsed" => {
            format!("{} for {}, to {}", cell(&event["kind"]), cell(&event["host"]), cell(&event["purpose"]))
        }
        "FileOperationStarted" => format!("{}, by {}", operation(&event["operation"]), actor(&event["actor"])),
        "FileOperationFinished" => ended(event),
        "ExecStarted" => format!("{}, by {}", command(&event["spec"]), actor(&event["actor"])),
        "ExecFinished" => format!("exit code {}", cell(&event["exit"]["exit_code"])),
        "ExecFailed" => cell(&event["failure"]["message"]),
        "ExecInterrupted" | "FileOperationInterrupted" => cell(&event["reason"]),
        "WorkspaceShared" => format!("with {}", cell(&event["with"])),
        "DigestSet" | "DigestCleared" => format!("{}, by {}", cell(&event["section_key"]), actor(&event["actor"])),
        "CloseRequested" => format!("{}, by {}", cell(&event["reason"]), actor(&event["actor"])),
        "ProvisionInterrupted" | "ToolCallInterrupted" | "RemovalFailed" | "WorkspaceLost" => cell(&event["reason"]),
        "WorkspaceCreated" | "SessionActivated" | "WorkspaceRemoved" | "WorkspaceAdopted" | "SessionClosed" => {
            String::new()
        }
        _ => rest(event),
    };
    shortened(&text, WIDTH)
}

/// How a change of files ended.
fn ended(event: &Value) -> String {
    match event["failure"]["message"].as_str() {
        Some(message) => format!("failed: {message}"),
        None => format!("in {} ms", cell(&event["duration_ms"])),
    }
}

/// A change of files: its name and what it is about.
fn operation(operation: &Value) -> String {
    let about = ["path", "name", "snapshot"].into_iter().find(|name| operation[*name].is_string());
    let about = about.map(|name| format!(" {}", cell(&operation[name]))).unwrap_or_default();
    format!("{}{about}", cell(&operation["operation"]))
}

/// What was run, as somebody would have typed it.
fn command(spec: &Value) -> String {
    match spec["argv"].as_array() {
        Some(words) => words.iter().map(cell).collect::<Vec<_>>().join(" "),
        None => cell(&spec["command"]),
    }
}

/// An event newer than this program: its own fields as they are.
fn rest(event: &Value) -> String {
    let fields = event.as_object().into_iter().flatten();
    let own = fields.filter(|(name, _)| !matches!(name.as_str(), "seq" | "at" | "type" | "hash"));
    own.map(|(name, value)| format!("{name}={}", cell(value))).collect::<Vec<_>>().join(" ")
}

fn actor(actor: &Value) -> String {
    match actor {
        Value::String(text) => text.clone(),
        _ => [&actor["name"], &actor["session"], &actor["type"]]
            .into_iter()
            .find(|value| value.is_string())
            .map_or_else(|| cell(actor), cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_one_line_whatever_it_holds() {
        let event = json!({"seq": 7, "at": "2026-11-15T09:30:00.120Z", "type": "ToolCallStarted", "tool": "write",
            "arguments": {"path": "a.txt"}, "hash": "blake3:00"});
        assert_eq!(event_row(&event), "    7  09:30:00.120  ToolCallStarted       write {\"path\":\"a.txt\"}");
        let newer = json!({"seq": 8, "at": "2026-11-15T09:30:00.120Z", "type": "Danced", "with": "you", "hash": "x"});
        assert_eq!(event_row(&newer), "    8  09:30:00.120  Danced                with=you");
    }
}
