//! Renders a plan: the deciding layer of each setting, and every init action.

use serde_json::json;
use stead_api::session::network::{NetworkPlan, ReachableHost};
use stead_api::session::plan::SessionPlan;
use stead_core::plan::Action;

use super::session::{limits, notice};
use super::{cell, shortened};
use crate::failure::Failure;
use crate::output::{Mark, Output, Table};

pub(crate) fn plan(out: &Output, plan: &SessionPlan) -> Result<(), Failure> {
    let Some(workspace) = &plan.workspace else {
        return out.line(&format!("agent type {}: no workspace", plan.agent_type));
    };
    let policy = &workspace.policy;
    let mut summary = Table::of_fields();
    summary.row(&["agent type", &cell(&plan.agent_type)]);
    summary.row(&["policy", &format!("{} (from {})", policy.policy, policy.source)]);
    summary.row(&["providers", &cell(&workspace.providers)]);
    summary.row(&["made by", &workspace.provider.map_or_else(|| "none now".to_owned(), |name| name.to_string())]);
    summary.row(&["tools", &cell(&workspace.tools)]);
    summary.row(&["limits", &limits(&workspace.limits)]);
    summary.row(&["network", &reach(workspace.network.as_ref())]);
    if let Some(setup) = &workspace.setup_cache {
        let result = setup.result.as_ref().map(|result| format!(": {result}")).unwrap_or_default();
        let commit = setup.commit.as_ref().map(|commit| format!(", made at commit {commit}")).unwrap_or_default();
        summary.row(&["setup cache", &format!("{}{result}{commit}", setup.outcome)]);
    }
    summary.row(&["fingerprint", &cell(&workspace.fingerprint)]);
    out.table(&summary)?;
    for passed in &workspace.passed_over {
        out.marked(Mark::Warned, &format!("not {}: {}", passed.provider, passed.reason))?;
    }
    for warning in &workspace.warnings {
        out.marked(Mark::Warned, &notice(warning))?;
    }
    for mount in &workspace.mounts {
        let (from, to, mode) = (&mount.host_path, &mount.mount_path, cell(&mount.mode));
        out.marked(Mark::Good, &format!("{from} at {to} ({mode}): {}", mount.judgement))?;
    }

    out.heading("\nWho said what, strongest first")?;
    let mut table = Table::new(&["layer", "policy"]);
    let chain = &policy.chain;
    for (layer, policy) in
        [("task", &chain.task), ("role", &chain.role), ("project", &chain.project), ("platform", &chain.platform)]
    {
        table.row(&[layer, &cell(policy)]);
    }
    out.table(&table)?;

    out.heading("\nSteps")?;
    actions(out, &workspace.plan.actions)?;
    out.heading("\nEnvironment")?;
    let mut environment = Table::of_fields();
    for (name, value) in json!(workspace.plan.env).as_object().into_iter().flatten() {
        environment.row(&[name, &cell(value)]);
    }
    out.table(&environment)
}

/// The reachable hosts of each phase in one line.
fn reach(network: Option<&NetworkPlan>) -> String {
    let Some(network) = network else { return "none".to_owned() };
    let hosts = |phase: &str, hosts: &[ReachableHost]| {
        let mut names: Vec<&str> = hosts.iter().map(|host| host.host.as_str()).collect();
        names.dedup();
        (!names.is_empty()).then(|| format!("{phase}: {}", names.join(", ")))
    };
    let phases: Vec<String> =
        [hosts("setup", &network.setup), hosts("agent", &network.agent)].into_iter().flatten().collect();
    if phases.is_empty() { "none".to_owned() } else { shortened(&phases.join("; "), 200) }
}

fn actions(out: &Output, actions: &[Action]) -> Result<(), Failure> {
    if actions.is_empty() {
        return out.line("none: the workspace starts as an empty directory");
    }
    let mut table = Table::new(&["step", "action", "with"]);
    for (number, action) in (1..).zip(actions) {
        // Shows the fields of each action as in the journal.
        let action = json!(action);
        let details = action.as_object().into_iter().flatten();
        let (name, details): (Vec<_>, Vec<_>) =
            details.filter(|(_, value)| !value.is_null()).partition(|(name, _)| name.as_str() == "action");
        let details: Vec<String> = details.iter().map(|(name, value)| format!("{name}={}", cell(value))).collect();
        let name = name.first().map(|(_, value)| cell(value)).unwrap_or_default();
        table.row(&[&number.to_string(), &name, &shortened(&details.join(" "), 200)]);
    }
    out.table(&table)
}
