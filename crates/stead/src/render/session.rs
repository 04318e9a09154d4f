//! Sessions: one in full, many in rows.

use serde_json::Value;

use super::{cell, moment, short_moment};
use crate::failure::Failure;
use crate::output::{Mark, Output, Table};

pub(crate) fn sessions(out: &Output, items: &[Value]) -> Result<(), Failure> {
    let mut table = Table::new(&["id", "status", "agent", "project", "provider", "created"]);
    for session in items {
        let status = match session["degraded"].as_bool() {
            Some(true) => format!("{} (degraded)", cell(&session["status"])),
            _ => cell(&session["status"]),
        };
        table.row(&[
            &cell(&session["id"]),
            &status,
            &cell(&session["agent_type"]),
            &cell(&session["project"]),
            &cell(&session["workspace"]["provider"]),
            &short_moment(&session["created_at"]),
        ]);
    }
    out.table(&table)
}

pub(crate) fn session(out: &Output, session: &Value) -> Result<(), Failure> {
    let mut table = Table::of_fields();
    table.row(&["session", &cell(&session["id"])]);
    table.row(&["status", &cell(&session["status"])]);
    table.row(&["agent type", &cell(&session["agent_type"])]);
    optional(&mut table, "project", &session["project"]);
    optional(&mut table, "task", &session["task"]["id"]);
    table.row(&["created", &moment(&session["created_at"])]);
    table.row(&["expires", &moment(&session["expires_at"])]);
    optional(&mut table, "closed because", &session["close_reason"]);
    workspace(&mut table, &session["workspace"]);
    optional(&mut table, "token", &session["token"]);
    out.table(&table)?;
    for warning in session["warnings"].as_array().into_iter().flatten() {
        out.marked(Mark::Warned, &format!("{}: {}", cell(&warning["code"]), cell(&warning["message"])))?;
    }
    if !session["failure"].is_null() {
        let failure = &session["failure"];
        out.marked(Mark::Bad, &format!("{}: {}", cell(&failure["code"]), cell(&failure["message"])))?;
    }
    Ok(())
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
