//! Decides about connections and requests.

use core::net::IpAddr;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::address::AddressReach;
use super::declared::{DetailedRule, NetworkRule, RuleProtocol};
use super::grant::Grant;
use super::host_name::HostName;
use super::path_rule::RequestPath;
use super::refusal::{Refusal, RefusalCode};
use super::rule::{HTTP_PORT, Rule, TLS_PORT, Target};
use super::service::{ServiceHost, ServiceName};
use super::spec::{LayerRules, NetworkSpec};
use super::{Layer, Phase};
use crate::Name;
use crate::parse::words;

/// The destination of a connection, as a program in the box gives it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// A name that the program looked up.
    Name(HostName),
    /// An address that the program gave itself.
    Address(IpAddr),
    Service(ServiceName),
}

impl Destination {
    /// Returns the destination that a host name inside the box means. `None` for a name in the
    /// domain of services that is not the name of one.
    pub fn of_host(host: HostName) -> Option<Self> {
        if ServiceName::is_reserved(&host) {
            return ServiceName::of_host(&host).map(Self::Service);
        }
        Some(Self::Name(host))
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{name}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Service(name) => f.write_str(&name.host()),
        }
    }
}

/// One connection of a box.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contact {
    pub destination: Destination,
    pub port: u16,
}

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.destination {
            Destination::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            other => write!(f, "{other}:{}", self.port),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allowed(Allowance),
    Refused(Refusal),
}

words!(
    /// The treatment of a connection's bytes by the server.
    Treatment, "network treatment", {
        /// Passes them on. TLS stays between the box and the host.
        Passed = "passed",
        /// Reads HTTP requests for a service and sends them to its target.
        Service = "service",
        /// Reads HTTP requests, inside TLS too, and judges each.
        Inspected = "inspected",
    }
);

/// The rule by which a layer allows or denies a contact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MatchedRule {
    pub layer: Layer,
    /// The field that has the rule, see [`Rule::at`].
    pub rule: String,
}

/// A contact that every layer allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// The protocol that the connection must speak. `tcp` is any.
    pub protocol: RuleProtocol,
    pub treatment: Treatment,
    /// The first matching rule of each layer.
    pub rules: Vec<MatchedRule>,
    /// The addresses that the name may resolve to.
    pub addresses: AddressReach,
    /// The secrets that matching rules name. [`judge_request`] tells which ones a request gets.
    pub secrets: Vec<Name>,
}

/// A request that every layer allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestAllowance {
    /// Secrets of the rules that let the request through.
    pub secrets: Vec<Name>,
    /// The request may switch to another protocol.
    pub upgrade: bool,
}

/// The verdict of one layer about a contact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerVerdict {
    pub layer: Layer,
    pub says: Says,
    /// The rule that decided. `None` if no rule matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

words!(
    Says, "layer verdict", {
        /// A rule of the layer allows the contact.
        Allowed = "allowed",
        /// A deny rule of the layer matches.
        Denied = "denied",
        /// The layer has rules for the phase, and none matches.
        NoRule = "no_rule",
        /// The layer has no rules for the phase.
        Nothing = "nothing",
    }
);

/// Returns the rules of a layer that match a contact, each with the protocol that it demands.
/// Grants count as rules of the agent type.
fn matching<'a>(
    layer: &'a LayerRules,
    phase: Phase,
    grants: &'a [Grant],
    contact: &'a Contact,
) -> impl Iterator<Item = (&'a Rule, RuleProtocol)> {
    let own = layer.rules(phase).unwrap_or_default().iter();
    let granted = grants.iter().filter(move |grant| layer.layer == Layer::AgentType && grant.phase == phase);
    own.chain(granted.map(|grant| &grant.rule)).filter_map(move |rule| Some((rule, rule.matches(contact)?)))
}

/// Decides about a connection: no layer denies it, and every layer with rules for the phase has one
/// that matches. `grants` are those in force now.
pub fn judge(spec: &NetworkSpec, phase: Phase, grants: &[Grant], contact: &Contact) -> Verdict {
    let refused = |code, layer, rule| Verdict::Refused(Refusal { code, layer, rule, draft: None });
    if let Destination::Name(name) = &contact.destination
        && ServiceName::is_reserved(name)
    {
        return refused(RefusalCode::NotAllowed, None, None);
    }
    for layer in &spec.layers {
        if let Some(rule) = layer.deny.iter().find(|rule| rule.matches(contact).is_some()) {
            return refused(RefusalCode::Denied, Some(layer.layer), Some(rule.at.clone()));
        }
    }
    let mut protocols = Protocols::ALL;
    let (mut rules, mut secrets, mut speaking) = (Vec::new(), Vec::new(), 0);
    let (mut inspected, mut private) = (false, true);
    // An address could be that of a denied name, so a rule has to name the address itself.
    let denies_names = spec.layers.iter().flat_map(|layer| &layer.deny).any(|rule| rule.host.is_name());
    let must_name = denies_names && matches!(contact.destination, Destination::Address(_));
    for layer in spec.layers.iter().filter(|layer| layer.rules(phase).is_some()) {
        speaking += 1;
        let (mut first, mut allowed, mut layer_private) = (None, Protocols::NONE, false);
        let suitable = |(rule, _): &(&Rule, RuleProtocol)| !must_name || rule.host != Target::Any;
        for (rule, protocol) in matching(layer, phase, grants, contact).filter(suitable) {
            first.get_or_insert(rule);
            allowed = allowed.or(Protocols::of(protocol));
            inspected |= rule.is_inspected();
            layer_private |= rule.private;
            if let Some(secret) = rule.secret.as_ref().filter(|secret| !secrets.contains(*secret)) {
                secrets.push(secret.clone());
            }
        }
        let Some(first) = first else {
            let refusal =
                Refusal { code: RefusalCode::NotAllowed, layer: Some(layer.layer), rule: None, draft: draft(contact) };
            return Verdict::Refused(refusal);
        };
        protocols = protocols.and(allowed);
        private &= layer_private;
        rules.push(MatchedRule { layer: layer.layer, rule: first.at.clone() });
    }
    if speaking == 0 {
        return refused(RefusalCode::NoNetwork, None, None);
    }
    let Some(protocol) = protocols.strictest_common() else {
        return refused(RefusalCode::ProtocolConflict, None, None);
    };
    match &contact.destination {
        Destination::Service(name) => match spec.services.get(name) {
            None => refused(RefusalCode::NotAllowed, Some(Layer::Platform), None),
            Some(service) => Verdict::Allowed(Allowance {
                protocol,
                treatment: Treatment::Service,
                rules,
                addresses: match &service.host {
                    ServiceHost::Address(_) => AddressReach::Operator,
                    ServiceHost::Name(name) if name.as_str() == "localhost" => AddressReach::Operator,
                    ServiceHost::Name(_) => AddressReach::Private,
                },
                secrets: service.secret.iter().cloned().collect(),
            }),
        },
        _ => Verdict::Allowed(Allowance {
            protocol,
            treatment: if inspected { Treatment::Inspected } else { Treatment::Passed },
            rules,
            addresses: if private { AddressReach::Private } else { AddressReach::Public },
            secrets,
        }),
    }
}

/// Decides about an HTTP request on a connection that [`judge`] allows. `target` is the path with
/// an optional query.
///
/// Every layer needs one rule that matches the contact and lets the request through.
pub fn judge_request(
    spec: &NetworkSpec,
    phase: Phase,
    grants: &[Grant],
    contact: &Contact,
    method: &str,
    target: &str,
) -> Result<RequestAllowance, Refusal> {
    if let Verdict::Refused(refusal) = judge(spec, phase, grants, contact) {
        return Err(refusal);
    }
    let path = RequestPath::read(target);
    let refused = |layer| {
        let code = if path.is_ok() { RefusalCode::RequestNotAllowed } else { RefusalCode::PathUnclear };
        Err(Refusal { code, layer: Some(layer), rule: None, draft: None })
    };
    if method.eq_ignore_ascii_case("CONNECT") {
        return Err(Refusal { code: RefusalCode::RequestNotAllowed, layer: None, rule: None, draft: None });
    }
    if let Destination::Service(name) = &contact.destination {
        return match spec.services.get(name) {
            Some(service) if service.admits(method, path.as_ref().ok()) => {
                Ok(RequestAllowance { secrets: service.secret.iter().cloned().collect(), upgrade: service.upgrade })
            }
            _ => refused(Layer::Platform),
        };
    }
    let mut allowance = RequestAllowance { secrets: Vec::new(), upgrade: true };
    for layer in spec.layers.iter().filter(|layer| layer.rules(phase).is_some()) {
        let mut admitted = false;
        let mut upgrade = false;
        for (rule, _) in matching(layer, phase, grants, contact) {
            if rule.admits(method, path.as_ref().ok()) {
                admitted = true;
                upgrade |= rule.admits_upgrade();
                if let Some(secret) = rule.secret.as_ref().filter(|secret| !allowance.secrets.contains(secret)) {
                    allowance.secrets.push(secret.clone());
                }
            }
        }
        if !admitted {
            return refused(layer.layer);
        }
        allowance.upgrade &= upgrade;
    }
    Ok(allowance)
}

/// Returns what each layer says about a contact, from the outermost to the innermost.
pub fn explain(spec: &NetworkSpec, phase: Phase, grants: &[Grant], contact: &Contact) -> Vec<LayerVerdict> {
    let of = |layer: &LayerRules| {
        if let Some(rule) = layer.deny.iter().find(|rule| rule.matches(contact).is_some()) {
            return LayerVerdict { layer: layer.layer, says: Says::Denied, rule: Some(rule.at.clone()) };
        }
        if layer.rules(phase).is_none() {
            return LayerVerdict { layer: layer.layer, says: Says::Nothing, rule: None };
        }
        let rule = matching(layer, phase, grants, contact).next().map(|(rule, _)| rule.at.clone());
        let says = if rule.is_some() { Says::Allowed } else { Says::NoRule };
        LayerVerdict { layer: layer.layer, says, rule }
    };
    spec.layers.iter().map(of).collect()
}

/// Returns a rule that would allow a contact, for the person who decides about it.
fn draft(contact: &Contact) -> Option<NetworkRule> {
    let host = match &contact.destination {
        // A made-up address that stands for no name any more.
        Destination::Address(IpAddr::V4(address)) if matches!(address.octets(), [198, 18 | 19, ..]) => return None,
        Destination::Service(name) => return Some(NetworkRule::Name(format!("service:{name}"))),
        Destination::Name(name) if matches!(contact.port, TLS_PORT | HTTP_PORT) => {
            return Some(NetworkRule::Name(name.to_string()));
        }
        other => other.to_string(),
    };
    let rule = DetailedRule {
        host,
        ports: Some(vec![contact.port.into()]),
        protocol: Some(RuleProtocol::Tcp),
        ..DetailedRule::default()
    };
    Some(NetworkRule::Detailed(Box::new(rule)))
}

/// A set of protocols. `tcp` includes the others, because it means any bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Protocols(u8);

impl Protocols {
    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self(0b111);

    pub(super) fn of(protocol: RuleProtocol) -> Self {
        Self(match protocol {
            RuleProtocol::Tls => 0b001,
            RuleProtocol::Http => 0b010,
            RuleProtocol::Tcp => 0b111,
        })
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the protocol to demand. A layer cannot have both `tls` and `http` for one host and
    /// port, so at most one of them is left unless any protocol is.
    pub(super) fn strictest_common(self) -> Option<RuleProtocol> {
        match self.0 {
            0b111 => Some(RuleProtocol::Tcp),
            set if set & 0b001 != 0 => Some(RuleProtocol::Tls),
            set if set & 0b010 != 0 => Some(RuleProtocol::Http),
            _ => None,
        }
    }
}
