//! What a session would be: who decided what, and every step.

use serde_json::Value;

use super::session::limits;
use super::{cell, shortened};
use crate::failure::Failure;
use crate::output::{Mark, Output, Table};

pub(crate) fn plan(out: &Output, plan: &Value) -> Result<(), Failure> {
    let workspace = &plan["workspace"];
    if workspace.is_null() {
        return out.line(&format!("agent type {}: no workspace", cell(&plan["agent_type"])));
    }
    let policy = &workspace["policy"];
    let mut summary = Table::of_fields();
    summary.row(&["agent type", &cell(&plan["agent_type"])]);
    summary.row(&["policy", &format!("{} (from {})", cell(&policy["policy"]), cell(&policy["source"]))]);
    summary.row(&["providers", &cell(&workspace["providers"])]);
    let provider = &workspace["provider"];
    summary.row(&["made by", &if provider.is_null() { "none now".to_owned() } else { cell(provider) }]);
    summary.row(&["tools", &cell(&workspace["tools"])]);
    summary.row(&["limits", &limits(&workspace["limits"])]);
    summary.row(&["network", "none"]);
    summary.row(&["fingerprint", &cell(&workspace["fingerprint"])]);
    out.table(&summary)?;
    for passed in workspace["passed_over"].as_array().into_iter().flatten() {
        out.marked(Mark::Warned, &format!("not {}: {}", cell(&passed["provider"]), cell(&passed["reason"])))?;
    }
    for warning in workspace["warnings"].as_array().into_iter().flatten() {
        out.marked(Mark::Warned, &format!("{}: {}", cell(&warning["code"]), cell(&warning["message"])))?;
    }
    for mount in workspace["mounts"].as_array().into_iter().flatten() {
        let (from, to) = (cell(&mount["host_path"]), cell(&mount["mount_path"]));
        out.marked(Mark::Good, &format!("{from} at {to} ({}): {}", cell(&mount["mode"]), cell(&mount["judgement"])))?;
    }

    out.heading("\nWho said what, strongest first")?;
    let mut chain = Table::new(&["layer", "policy"]);
    for layer in ["task", "role", "project", "platform"] {
        chain.row(&[layer, &cell(&policy["chain"][layer])]);
    }
    out.table(&chain)?;

    out.heading("\nSteps")?;
    actions(out, &workspace["plan"]["actions"])?;
    out.heading("\nEnvironment")?;
    environment(out, &workspace["plan"]["env"])
}

fn actions(out: &Output, actions: &Value) -> Result<(), Failure> {
    let Some(actions) = actions.as_array().filter(|actions| !actions.is_empty()) else {
        return out.line("none: the workspace starts as an empty directory");
    };
    let mut table = Table::new(&["step", "action", "with"]);
    for (number, action) in (1..).zip(actions) {
        let details = action.as_object().into_iter().flatten();
        let details = details.filter(|(name, value)| name.as_str() != "action" && !value.is_null());
        let details: Vec<String> = details.map(|(name, value)| format!("{name}={}", cell(value))).collect();
        table.row(&[&number.to_string(), &cell(&action["action"]), &shortened(&details.join(" "), 200)]);
    }
    out.table(&table)
}

fn environment(out: &Output, env: &Value) -> Result<(), Failure> {
    let mut table = Table::of_fields();
    for (name, value) in env.as_object().into_iter().flatten() {
        table.row(&[name, &cell(value)]);
    }
    out.table(&table)
}
