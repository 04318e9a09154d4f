//! A rule of one layer in its compiled form.

use core::net::IpAddr;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::declared::{DetailedRule, NetworkRule, RuleProtocol};
use super::host_name::{HostName, InvalidHostName};
use super::judge::{Contact, Destination};
use super::path_rule::{PathRule, RequestPath};
use super::service::ServiceName;
use crate::Name;

/// The ports of a host without further details, and of a service inside the box.
pub const TLS_PORT: u16 = 443;
pub const HTTP_PORT: u16 = 80;

/// The hosts that a rule is about. As text: `example.com`, `*.example.com`, `*`, `203.0.113.7`,
/// `service:NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Target {
    /// Every name and every address. Only the mode `full` has it.
    Any,
    /// Every name with at least one label before this one.
    Below(HostName),
    Name(HostName),
    Address(IpAddr),
    Service(ServiceName),
}

impl Target {
    /// Returns true for a host name and for names below one.
    pub(super) fn is_name(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Below(_))
    }
}

/// A port and the protocol that a connection to it must speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortRule {
    pub port: u16,
    pub protocol: RuleProtocol,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ports {
    /// Every port, with any protocol.
    Every,
    These(Vec<PortRule>),
}

/// One rule of a layer: hosts, ports, and what requests may do there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Field of the layer's `network` that has the rule, such as `agent.allow[0]`.
    pub at: String,
    pub host: Target,
    pub ports: Ports,
    /// HTTP methods. `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    /// HTTP paths. `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathRule>>,
    /// The secret that the server adds to requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<Name>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub inspect: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub private: bool,
    /// Paths may have an encoded slash (`/@scope%2fname`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub encoded_slash: bool,
    /// Requests may switch to another protocol, such as WebSocket.
    #[serde(default, skip_serializing_if = "is_false")]
    pub upgrade: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

/// The reason why a declared rule is not valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The field of the rule. `None` for the rule as a whole.
    pub field: Option<&'static str>,
    pub message: String,
}

impl RuleError {
    fn at(field: &'static str, message: impl Into<String>) -> Self {
        Self { field: Some(field), message: message.into() }
    }
}

const MOST_PORTS: usize = 16;
const MOST_METHODS: usize = 16;
const MOST_PATHS: usize = 64;

impl Rule {
    /// A rule without details.
    pub(super) fn plain(at: String, host: Target, ports: Ports) -> Self {
        Self {
            at,
            host,
            ports,
            methods: None,
            paths: None,
            secret: None,
            inspect: false,
            private: false,
            encoded_slash: false,
            upgrade: false,
        }
    }

    /// The rule of the mode `full`.
    pub(super) fn full(at: String) -> Self {
        Self::plain(at, Target::Any, Ports::Every)
    }

    /// Compiles a rule of an allow list.
    pub fn allow(declared: &NetworkRule, at: String) -> Result<Self, RuleError> {
        let rule = match declared {
            NetworkRule::Name(text) => {
                let host = target(text).map_err(|message| RuleError { field: None, message })?;
                let ports = default_ports(&host).map_err(|message| RuleError { field: None, message })?;
                return Ok(Self::plain(at, host, ports));
            }
            NetworkRule::Detailed(rule) => rule,
        };
        let host = target(&rule.host).map_err(|message| RuleError::at("host", message))?;
        if matches!(host, Target::Service(_)) {
            return Err(RuleError::at("host", "a service has no details: give the rule as the text \"service:NAME\""));
        }
        let ports = ports(rule, &host)?;
        let compiled = Self {
            at,
            host,
            ports,
            methods: methods(rule)?,
            paths: paths(rule)?,
            secret: secret(rule)?,
            inspect: rule.inspect.unwrap_or(false),
            private: rule.private.unwrap_or(false),
            encoded_slash: rule.encoded_slash.unwrap_or(false),
            upgrade: rule.upgrade.unwrap_or(false),
        };
        compiled.check()?;
        Ok(compiled)
    }

    /// Compiles a rule of a deny list. Without ports it is about every port.
    pub fn deny(declared: &NetworkRule, at: String) -> Result<Self, RuleError> {
        let rule = match declared {
            NetworkRule::Name(text) if text == "*" => return Ok(Self::full(at)),
            NetworkRule::Name(text) => {
                let host = target(text).map_err(|message| RuleError { field: None, message })?;
                return Ok(Self::plain(at, host, Ports::Every));
            }
            NetworkRule::Detailed(rule) => rule,
        };
        let only = [
            ("protocol", rule.protocol.is_some()),
            ("methods", rule.methods.is_some()),
            ("paths", rule.paths.is_some()),
            ("secret", rule.secret.is_some()),
            ("inspect", rule.inspect.is_some()),
            ("private", rule.private.is_some()),
            ("encoded_slash", rule.encoded_slash.is_some()),
            ("upgrade", rule.upgrade.is_some()),
        ];
        if let Some((field, _)) = only.into_iter().find(|(_, given)| *given) {
            return Err(RuleError::at(field, "a deny rule has only host and ports"));
        }
        let host = target(&rule.host).map_err(|message| RuleError::at("host", message))?;
        let ports = match &rule.ports {
            None => Ports::Every,
            Some(ports) => {
                let protocol = RuleProtocol::Tcp;
                Ports::These(numbers(ports)?.into_iter().map(|port| PortRule { port, protocol }).collect())
            }
        };
        Ok(Self::plain(at, host, ports))
    }

    fn check(&self) -> Result<(), RuleError> {
        let Ports::These(ports) = &self.ports else { return Ok(()) };
        let speaks = |protocol| ports.iter().any(|port| port.protocol == protocol);
        if self.is_inspected() && speaks(RuleProtocol::Tcp) {
            return Err(RuleError::at(
                "protocol",
                "methods, paths, secret, inspect, encoded_slash and upgrade need the protocol tls or http",
            ));
        }
        if self.secret.is_some() && speaks(RuleProtocol::Http) {
            return Err(RuleError::at(
                "secret",
                "a secret is not sent over plain HTTP: use the protocol tls, or a service of the platform",
            ));
        }
        if self.encoded_slash && self.paths.is_none() {
            return Err(RuleError::at("encoded_slash", "is only for rules with paths"));
        }
        if matches!(self.host, Target::Address(_)) && speaks(RuleProtocol::Tls) {
            return Err(RuleError::at(
                "protocol",
                "an address needs the protocol tcp or http: a TLS handshake names a host and not an address",
            ));
        }
        Ok(())
    }

    /// Returns true if the server has to read the requests of a connection.
    pub fn is_inspected(&self) -> bool {
        self.inspect
            || self.methods.is_some()
            || self.paths.is_some()
            || self.secret.is_some()
            || self.encoded_slash
            || self.upgrade
    }

    /// Returns the protocol of a contact that the rule is about.
    pub fn matches(&self, contact: &Contact) -> Option<RuleProtocol> {
        if !self.host.includes(&contact.destination) {
            return None;
        }
        match &self.ports {
            Ports::Every => Some(RuleProtocol::Tcp),
            Ports::These(ports) => ports.iter().find(|rule| rule.port == contact.port).map(|rule| rule.protocol),
        }
    }

    /// Returns true if the rule lets an HTTP request through. A path that has more than one reading
    /// is `None`, and no rule with paths lets it through.
    pub fn admits(&self, method: &str, path: Option<&RequestPath>) -> bool {
        let by_method = self.methods.as_ref().is_none_or(|methods| methods.iter().any(|allowed| allowed == method));
        let by_path = self.paths.as_ref().is_none_or(|paths| {
            path.filter(|path| self.encoded_slash || !path.has_encoded_slash())
                .is_some_and(|path| paths.iter().any(|rule| rule.matches(path)))
        });
        by_method && by_path
    }

    /// Returns true if a request that the rule lets through may switch protocols.
    pub fn admits_upgrade(&self) -> bool {
        self.upgrade || !self.is_inspected()
    }
}

fn target(text: &str) -> Result<Target, String> {
    match text.parse::<Target>() {
        Ok(Target::Any) => Err("'*' is not a host: name hosts, or set the mode \"full\"".to_owned()),
        Ok(Target::Name(name) | Target::Below(name)) if ServiceName::is_reserved(&name) => {
            Err("names below svc.stead are services: write \"service:NAME\"".to_owned())
        }
        other => other,
    }
}

fn default_ports(host: &Target) -> Result<Ports, String> {
    let http = PortRule { port: HTTP_PORT, protocol: RuleProtocol::Http };
    match host {
        Target::Service(_) => Ok(Ports::These(vec![http])),
        Target::Address(_) => Err("an address needs ports and the protocol tcp or http: \
             {\"host\": \"203.0.113.7\", \"ports\": [5432], \"protocol\": \"tcp\"}"
            .to_owned()),
        _ => Ok(Ports::These(vec![PortRule { port: TLS_PORT, protocol: RuleProtocol::Tls }, http])),
    }
}

fn ports(rule: &DetailedRule, host: &Target) -> Result<Ports, RuleError> {
    let tls = PortRule { port: TLS_PORT, protocol: RuleProtocol::Tls };
    let ports = match (&rule.ports, rule.protocol) {
        // A secret is never sent over plain HTTP.
        (None, None) if rule.secret.is_some() => vec![tls],
        (None, None) => return default_ports(host).map_err(|message| RuleError::at("ports", message)),
        (None, Some(RuleProtocol::Tls)) => vec![tls],
        (None, Some(RuleProtocol::Http)) => vec![PortRule { port: HTTP_PORT, protocol: RuleProtocol::Http }],
        (None, Some(RuleProtocol::Tcp)) => return Err(RuleError::at("ports", "is required for the protocol tcp")),
        (Some(ports), protocol) => {
            let usual = |port| if port == HTTP_PORT { RuleProtocol::Http } else { RuleProtocol::Tls };
            let of = |port| PortRule { port, protocol: protocol.unwrap_or_else(|| usual(port)) };
            numbers(ports)?.into_iter().map(of).collect()
        }
    };
    Ok(Ports::These(ports))
}

fn numbers(ports: &[u64]) -> Result<Vec<u16>, RuleError> {
    if ports.is_empty() || ports.len() > MOST_PORTS {
        return Err(RuleError::at("ports", format!("1 to {MOST_PORTS} ports")));
    }
    let number = |port: &u64| u16::try_from(*port).ok().filter(|port| *port > 0);
    let numbers: Option<Vec<u16>> = ports.iter().map(number).collect();
    numbers.ok_or_else(|| RuleError::at("ports", "every port must be between 1 and 65535"))
}

fn methods(rule: &DetailedRule) -> Result<Option<Vec<String>>, RuleError> {
    let Some(methods) = &rule.methods else { return Ok(None) };
    check_methods(methods).map_err(|message| RuleError::at("methods", message))?;
    Ok(Some(methods.clone()))
}

/// Checks a list of HTTP methods.
pub(super) fn check_methods(methods: &[String]) -> Result<(), String> {
    if methods.is_empty() || methods.len() > MOST_METHODS {
        return Err(format!("1 to {MOST_METHODS} methods"));
    }
    let valid =
        |method: &String| (1..=32).contains(&method.len()) && method.bytes().all(|byte| byte.is_ascii_uppercase());
    match methods.iter().find(|method| !valid(method) || *method == "CONNECT") {
        Some(wrong) => {
            let shown: String = wrong.chars().filter(|c| !c.is_control()).take(40).collect();
            Err(format!("'{shown}' is not a method that can be allowed: use upper-case names such as GET and POST"))
        }
        None => Ok(()),
    }
}

fn paths(rule: &DetailedRule) -> Result<Option<Vec<PathRule>>, RuleError> {
    let Some(paths) = &rule.paths else { return Ok(None) };
    read_paths(paths).map(Some).map_err(|message| RuleError::at("paths", message))
}

/// Reads a list of path rules.
pub(super) fn read_paths(paths: &[String]) -> Result<Vec<PathRule>, String> {
    if paths.is_empty() || paths.len() > MOST_PATHS {
        return Err(format!("1 to {MOST_PATHS} paths"));
    }
    paths.iter().map(|path| path.parse().map_err(|error| format!("{path:?}: {error}"))).collect()
}

fn secret(rule: &DetailedRule) -> Result<Option<Name>, RuleError> {
    let Some(secret) = &rule.secret else { return Ok(None) };
    secret.parse().map(Some).map_err(|error: crate::id::InvalidId| RuleError::at("secret", error.to_string()))
}

impl Target {
    pub fn includes(&self, destination: &Destination) -> bool {
        match (self, destination) {
            (Self::Any, Destination::Name(_) | Destination::Address(_)) => true,
            (Self::Below(parent), Destination::Name(name)) => name.is_below(parent),
            (Self::Name(own), Destination::Name(name)) => own == name,
            (Self::Address(own), Destination::Address(address)) => own.to_canonical() == address.to_canonical(),
            (Self::Service(own), Destination::Service(name)) => own == name,
            _ => false,
        }
    }

    /// Returns the hosts that both targets include. Two targets are either disjoint, or one is
    /// within the other.
    pub fn common<'a>(&'a self, other: &'a Target) -> Option<&'a Target> {
        if self.covers(other) {
            return Some(other);
        }
        other.covers(self).then_some(self)
    }

    /// Returns true if every host of `other` is also one of this target.
    pub fn covers(&self, other: &Target) -> bool {
        match (self, other) {
            (Self::Any, Self::Service(_)) => false,
            (Self::Any, _) => true,
            (Self::Below(parent), Self::Below(name)) => name == parent || name.is_below(parent),
            (Self::Below(parent), Self::Name(name)) => name.is_below(parent),
            (own, other) => own == other,
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(name) = text.strip_prefix("service:") {
            return name.parse().map(Self::Service).map_err(|error: crate::id::InvalidId| error.to_string());
        }
        if let Some(parent) = text.strip_prefix("*.") {
            let parent: HostName = parent.parse().map_err(|error: InvalidHostName| error.to_string())?;
            return match parent.labels() {
                1 => Err(format!("'*.{parent}' is too wide: a wildcard needs at least two parts after it")),
                _ => Ok(Self::Below(parent)),
            };
        }
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        text.parse().map(Self::Name).map_err(|error: InvalidHostName| error.to_string())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Below(parent) => write!(f, "*.{parent}"),
            Self::Name(name) => write!(f, "{name}"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Service(name) => write!(f, "service:{name}"),
        }
    }
}

impl TryFrom<String> for Target {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> String {
        target.to_string()
    }
}
