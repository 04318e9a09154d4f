//! The effective policy: what a session can reach, as a list.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::declared::RuleProtocol;
use super::grant::Grant;
use super::judge::{Protocols, Treatment};
use super::rule::{Ports, Rule, Target};
use super::spec::{LayerRules, NetworkSpec};
use super::{HostName, Layer, Phase};
use crate::Name;

/// Hosts that a session can reach on one port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reachable {
    /// Host name, `*.` and a host name, `*`, an address, or `service:NAME`.
    pub host: Target,
    /// `None` for every port.
    pub port: Option<u16>,
    pub protocol: RuleProtocol,
    pub how: Treatment,
    /// Private addresses are allowed.
    #[serde(default, skip_serializing_if = "super::rule::is_false")]
    pub private: bool,
    /// Secrets that the server adds to some requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Name>,
}

/// Hosts and a port that all layers so far allow.
#[derive(Clone)]
struct Cell {
    protocols: Protocols,
    inspected: bool,
    private: bool,
    secrets: Vec<Name>,
}

type Cells = BTreeMap<(Target, Option<u16>), Cell>;

/// Returns what a session can reach in a phase, sorted by host and port. `grants` are those in
/// force.
pub fn reachable(spec: &NetworkSpec, phase: Phase, grants: &[Grant]) -> Vec<Reachable> {
    let mut cells: Option<Cells> = None;
    for layer in &spec.layers {
        let Some(rules) = layer.rules(phase) else { continue };
        let granted = grants.iter().filter(|grant| layer.layer == Layer::AgentType && grant.phase == phase);
        let rules = rules.iter().chain(granted.map(|grant| &grant.rule));
        let own = cells_of(rules);
        cells = Some(cells.map_or_else(|| own.clone(), |cells| intersect(&cells, &own)));
    }
    let cells = cells.unwrap_or_default();
    let denied = |host: &Target, port: Option<u16>| {
        let deny = spec.layers.iter().flat_map(|layer| &layer.deny);
        deny.into_iter().any(|rule| rule.host.covers(host) && covers_port(&rule.ports, port))
    };
    cells
        .into_iter()
        .filter(|((host, port), _)| !denied(host, *port))
        .filter_map(|((host, port), cell)| {
            let how = match &host {
                Target::Service(_) => Treatment::Service,
                _ if cell.inspected => Treatment::Inspected,
                _ => Treatment::Passed,
            };
            let protocol = cell.protocols.strictest_common()?;
            let mut secrets = cell.secrets;
            if let Target::Service(name) = &host {
                secrets = spec.services.get(name)?.secret.iter().cloned().collect();
            }
            Some(Reachable { host, port, protocol, how, private: cell.private, secrets })
        })
        .collect()
}

/// Returns the names whose TLS connections the server ends in some phase. A wildcard gives the name
/// that all its hosts are below.
pub fn inspected_names(spec: &NetworkSpec, grants: &[Grant]) -> BTreeSet<HostName> {
    let all = Phase::ALL.iter().flat_map(|phase| reachable(spec, *phase, grants));
    all.filter(|one| one.how == Treatment::Inspected && one.protocol == RuleProtocol::Tls)
        .filter_map(|one| match one.host {
            Target::Name(name) | Target::Below(name) => Some(name),
            Target::Any | Target::Address(_) | Target::Service(_) => None,
        })
        .collect()
}

fn cells_of<'a>(rules: impl Iterator<Item = &'a Rule>) -> Cells {
    let mut cells = Cells::new();
    for rule in rules {
        let ports: Vec<(Option<u16>, RuleProtocol)> = match &rule.ports {
            Ports::Every => vec![(None, RuleProtocol::Tcp)],
            Ports::These(ports) => ports.iter().map(|rule| (Some(rule.port), rule.protocol)).collect(),
        };
        for (port, protocol) in ports {
            let cell = Cell {
                protocols: Protocols::of(protocol),
                inspected: rule.is_inspected(),
                private: rule.private,
                secrets: rule.secret.iter().cloned().collect(),
            };
            add(&mut cells, (rule.host.clone(), port), cell);
        }
    }
    cells
}

/// Adds an alternative within one layer.
fn add(cells: &mut Cells, key: (Target, Option<u16>), cell: Cell) {
    match cells.entry(key) {
        std::collections::btree_map::Entry::Vacant(entry) => {
            entry.insert(cell);
        }
        std::collections::btree_map::Entry::Occupied(mut entry) => {
            let known = entry.get_mut();
            known.protocols = known.protocols.or(cell.protocols);
            known.inspected |= cell.inspected;
            known.private |= cell.private;
            known.secrets.extend(cell.secrets);
            known.secrets.sort();
            known.secrets.dedup();
        }
    }
}

fn intersect(one: &Cells, other: &Cells) -> Cells {
    let mut both = Cells::new();
    for ((host, port), cell) in one {
        for ((other_host, other_port), other_cell) in other {
            let Some(port) = common_port(*port, *other_port) else { continue };
            let Some(host) = host.common(other_host) else { continue };
            let protocols = cell.protocols.and(other_cell.protocols);
            if protocols == Protocols::NONE {
                continue;
            }
            let secrets = cell.secrets.iter().chain(&other_cell.secrets).cloned().collect();
            let met = Cell {
                protocols,
                inspected: cell.inspected || other_cell.inspected,
                private: cell.private && other_cell.private,
                secrets,
            };
            add(&mut both, (host.clone(), port), met);
        }
    }
    both
}

/// Returns the port that both mean. `None` inside is every port.
fn common_port(one: Option<u16>, other: Option<u16>) -> Option<Option<u16>> {
    match (one, other) {
        (Some(one), Some(other)) => (one == other).then_some(Some(one)),
        (one, other) => Some(one.or(other)),
    }
}

fn covers_port(ports: &Ports, port: Option<u16>) -> bool {
    match (ports, port) {
        (Ports::Every, _) => true,
        (Ports::These(ports), Some(port)) => ports.iter().any(|rule| rule.port == port),
        (Ports::These(_), None) => false,
    }
}

/// Returns the outermost other layer that lets nothing of a rule through. `None` if a connection
/// could use the rule.
pub fn blocked_by(spec: &NetworkSpec, phase: Phase, of: Layer, rule: &Rule) -> Option<Layer> {
    let mut cells = cells_of(std::iter::once(rule));
    for layer in &spec.layers {
        let covered = |host: &Target, port: Option<u16>| {
            layer.deny.iter().any(|deny| deny.host.covers(host) && covers_port(&deny.ports, port))
        };
        cells.retain(|(host, port), _| !covered(host, *port));
        if let Some(rules) = other_rules(layer, phase, of) {
            cells = intersect(&cells, &cells_of(rules.iter()));
        }
        if cells.is_empty() {
            return Some(layer.layer);
        }
    }
    None
}

fn other_rules(layer: &LayerRules, phase: Phase, of: Layer) -> Option<&[Rule]> {
    if layer.layer == of { None } else { layer.rules(phase) }
}
