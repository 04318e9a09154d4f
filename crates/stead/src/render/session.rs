//! Sessions: one in full, many in rows.

use serde_json::Value;

use super::{bytes, cell, duration, moment, short_moment, shortened};
use crate::failure::Failure;
use crate::output::{Mark, Output, Table};

pub(crate) fn sessions(out: &Output, items: &[Value]) -> Result<(), Failure> {
    let mut table = Table::new(&["id", "status", "agent", "project", "provider", "created"]);
    for session in items {
        table.row(&[
            &cell(&session["id"]),
            &status(session),
            &cell(&session["agent_type"]),
            &cell(&session["project"]),
            &cell(&session["workspace"]["provider"]),
            &short_moment(&session["created_at"]),
        ]);
    }
    out.table(&table)
}

fn status(session: &Value) -> String {
    match session["degraded"].as_bool() {
        Some(true) => format!("{} (degraded)", cell(&session["status"])),
        _ => cell(&session["status"]),
    }
}

pub(crate) fn session(out: &Output, session: &Value) -> Result<(), Failure> {
    let mut table = Table::of_fields();
    table.row(&["session", &cell(&session["id"])]);
    table.row(&["status", &status(session)]);
    table.row(&["agent type", &cell(&session["agent_type"])]);
    optional(&mut table, "project", &session["project"]);
    optional(&mut table, "task", &session["task"]["id"]);
    table.row(&["created", &moment(&session["created_at"])]);
    table.row(&["expires", &moment(&session["expires_at"])]);
    optional(&mut table, "closed because", &session["close_reason"]);
    workspace(&mut table, &session["workspace"]);
    out.table(&table)?;
    provisioning(out, &session["provisioning"])?;
    setup_output(out, &session["provisioning"])?;
    for warning in session["warnings"].as_array().into_iter().flatten() {
        out.marked(Mark::Warned, &format!("{}: {}", cell(&warning["code"]), cell(&warning["message"])))?;
    }
    if !session["failure"].is_null() {
        let failure = &session["failure"];
        out.marked(Mark::Bad, &format!("{}: {}", cell(&failure["code"]), cell(&failure["message"])))?;
    }
    Ok(())
}

/// The code of the warning that tells why a session has no workspace.
pub(crate) const UNAVAILABLE: &str = "workspace_unavailable";

/// Codes of warnings that every session in memory has, with the server's own default limits. `stead session show`
/// lists them.
const USUAL: [&str; 2] = ["limit_not_enforced", "history_left_out"];

/// The warnings about a session's start, on standard error. Why it has no workspace is the command's failure to tell.
pub(crate) fn warn(out: &Output, session: &Value) {
    for warning in session["warnings"].as_array().into_iter().flatten() {
        let code = warning["code"].as_str().unwrap_or_default();
        if code != UNAVAILABLE && !USUAL.contains(&code) {
            out.warning(&format!("{}: {}", cell(&warning["code"]), cell(&warning["message"])));
        }
    }
}

/// Prints the kept output of each setup command.
fn setup_output(out: &Output, provisioning: &Value) -> Result<(), Failure> {
    let steps = provisioning["steps"].as_array().into_iter().flatten();
    for setup in steps.map(|step| &step["setup"]).filter(|setup| !setup.is_null()) {
        let how = if setup["timed_out"] == true { "timed out, " } else { "" };
        let command = shortened(&cell(&setup["command"]), 120);
        out.heading(&format!(
            "\nSetup command {} ({how}exit code {}): {command}",
            setup["number"], setup["exit_code"]
        ))?;
        for stream in ["stdout", "stderr"] {
            let text = setup[stream].as_str().unwrap_or_default();
            if text.trim().is_empty() {
                continue;
            }
            let total = setup[format!("{stream}_total")].as_u64().unwrap_or(0);
            let cut = if total > text.len() as u64 { format!(", the last of {}", bytes(total)) } else { String::new() };
            out.line(&format!("{stream}{cut}:"))?;
            out.line(text.trim_end())?;
        }
    }
    Ok(())
}

/// Where the time went until the workspace was ready.
fn provisioning(out: &Output, provisioning: &Value) -> Result<(), Failure> {
    let steps = provisioning["steps"].as_array().map_or(&[][..], Vec::as_slice);
    if steps.is_empty() {
        return Ok(());
    }
    let total = duration(provisioning["duration_ms"].as_u64().unwrap_or(0));
    out.heading(&format!("\nProvisioning took {total}"))?;
    let attempts = steps.iter().filter_map(|step| step["attempt"].as_u64()).max().unwrap_or(1);
    let mut table = Table::new(&["step", "took"]);
    for step in steps {
        let name = match attempts {
            1 => cell(&step["name"]),
            _ => format!("{} ({}, attempt {})", cell(&step["name"]), cell(&step["provider"]), cell(&step["attempt"])),
        };
        let progress = &step["progress"];
        let took = match (step["duration_ms"].as_u64(), step["failure"]["code"].as_str()) {
            (Some(ms), None) => duration(ms),
            (Some(ms), Some(code)) => format!("{}, then {code}", duration(ms)),
            (None, _) if progress.is_null() => "so far".to_owned(),
            (None, _) => format!("{} {}% {}", cell(&progress["stage"]), progress["percent"], cell(&progress["detail"])),
        };
        table.row(&[&name, &took]);
    }
    out.table(&table)
}

/// What its workspace takes on the server's disk, if it has one and somebody can tell.
pub(crate) fn session_usage(out: &Output, usage: &Value) -> Result<(), Failure> {
    let (Some(own), Some(shared)) = (usage["own_bytes"].as_u64(), usage["shared_bytes"].as_u64()) else {
        return Ok(());
    };
    let mut table = Table::of_fields();
    table.row(&["disk", &format!("{} of its own, {} shared", bytes(own), bytes(shared))]);
    out.table(&table)
}

fn workspace(table: &mut Table, workspace: &Value) {
    if workspace.is_null() {
        table.row(&["workspace", "none"]);
        return;
    }
    let status = format!("{} by {}", cell(&workspace["status"]), cell(&workspace["provider"]));
    table.row(&["workspace", &status]);
    let policy = &workspace["policy"];
    table.row(&["policy", &format!("{} (from {})", cell(&policy["policy"]), cell(&policy["source"]))]);
    table.row(&["tools", &cell(&workspace["tools"])]);
    table.row(&["limits", &limits(&workspace["limits"])]);
    for name in ["commit", "digest"] {
        optional(table, name, &workspace["base"][name]);
    }
    let metadata = workspace["metadata"].as_object().into_iter().flatten();
    for (name, value) in metadata {
        table.row(&[&name.replace('_', " "), &cell(value)]);
    }
}

/// The limits that are set, and whether anybody holds them.
pub(super) fn limits(limits: &Value) -> String {
    let enforced: Vec<&str> = limits["enforced"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let set = ["cpu", "memory", "disk", "pids"].into_iter().filter(|name| !limits[*name].is_null());
    let shown: Vec<String> = set
        .map(|name| {
            let held = if enforced.contains(&name) { "" } else { " (not enforced)" };
            format!("{name} {}{held}", cell(&limits[name]))
        })
        .collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

fn optional(table: &mut Table, name: &str, value: &Value) {
    if !value.is_null() {
        table.row(&[name, &cell(value)]);
    }
}
