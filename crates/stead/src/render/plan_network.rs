//! Renders a network policy: what is reachable, the rules of each layer, and findings.

use stead_api::session::network::{NetworkPlan, ReachableHost};
use stead_core::network::{LayerRules, Phase, Ports, Rule};

use super::cell;
use crate::failure::Failure;
use crate::output::{Mark, Output, Table};

pub(crate) fn plan_network(out: &Output, plan: Option<&NetworkPlan>) -> Result<(), Failure> {
    let Some(plan) = plan else { return out.line("no network: the agent type and the task ask for none") };
    out.heading("Reachable")?;
    hosts(out, &[("setup", plan.setup.as_slice()), ("agent", plan.agent.as_slice())])?;
    out.heading("\nRules of each layer")?;
    let mut table = Table::new(&["layer", "phase", "host", "ports", "rule"]);
    for layer in &plan.layers {
        for phase in Phase::ALL {
            rows(&mut table, layer, *phase);
        }
        for rule in &layer.deny {
            table.row(&[layer.layer.as_str(), "deny", &rule.host.to_string(), &ports(rule), &rule.at]);
        }
    }
    out.table(&table)?;
    for finding in &plan.findings {
        out.marked(Mark::Warned, &format!("{} ({}): {}", finding.kind, finding.phase, finding.message))?;
    }
    Ok(())
}

fn rows(table: &mut Table, layer: &LayerRules, phase: Phase) {
    let name = layer.layer.as_str();
    match layer.rules(phase) {
        None => table.row(&[name, phase.as_str(), "–", "–", "says nothing"]),
        Some([]) => table.row(&[name, phase.as_str(), "–", "–", "allows nothing"]),
        Some(rules) => {
            for rule in rules {
                table.row(&[name, phase.as_str(), &rule.host.to_string(), &ports(rule), &rule.at]);
            }
        }
    }
}

fn ports(rule: &Rule) -> String {
    match &rule.ports {
        Ports::Every => "every".to_owned(),
        Ports::These(ports) => {
            let ports: Vec<String> = ports.iter().map(|rule| format!("{}/{}", rule.port, rule.protocol)).collect();
            ports.join(" ")
        }
    }
}

/// Prints the hosts of each phase as one table.
pub(crate) fn hosts(out: &Output, phases: &[(&str, &[ReachableHost])]) -> Result<(), Failure> {
    let mut table = Table::new(&["phase", "host", "port", "protocol", "how", "secrets"]);
    for (phase, hosts) in phases {
        for host in *hosts {
            let port = host.port.map_or_else(|| "every".to_owned(), |port| port.to_string());
            table.row(&[phase, &host.host, &port, &host.protocol, &host.how, &cell(&host.secrets)]);
        }
    }
    out.table(&table)
}
