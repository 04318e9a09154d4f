//! Network access as a policy layer declares it.
//!
//! The stored form is lenient, because documents of earlier versions must stay readable. The parser
//! of requests is strict, and so is [`super::resolve()`], which compiles what is stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Phase;
use super::limits::LimitsDeclaration;
use super::rule::{Rule, RuleError};
use super::service::{ServiceDeclaration, ServiceName};
use crate::config::Bounded;
use crate::parse::{FieldPath, Fields, MAX_DEPTH, Read, within_depth, words};
use crate::record::{Kind, Rules, record};
use crate::schema;

words!(
    NetworkMode, "network mode", {
        None = "none",
        Allow = "allow",
        Full = "full",
    }
);

words!(
    RuleProtocol, "network protocol", {
        Tls = "tls",
        Http = "http",
        Tcp = "tcp",
    }
);

record! {
    /// Network access in one layer. A connection needs a rule in the platform and in every other
    /// layer that has rules for the phase. The agent type or the task has to ask for the phase.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults Network as "Network" {
        /// Access while the setup commands run. Absent for none in the platform, and in an agent
        /// type that has `agent`. Otherwise an absent one takes nothing away.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] setup: NetworkPhase,
        /// Access while the agent works. Absent as for `setup`.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] agent: NetworkPhase,
        /// Allow other layers the mode `full`; only of the platform.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] full: bool,
        /// Hosts that no rule of any layer opens.
        default(Vec::new()) #[serde(default, skip_serializing_if = "Vec::is_empty")] deny: Vec<NetworkRule>,
        /// Services that rules name as `service:NAME`; only of the platform.
        default(Map::new()) #[serde(default, skip_serializing_if = "Map::is_empty")] services: Services,
        /// Limits of connections and bytes. Layers inside can only lower them.
        default(Map::new()) #[serde(default, skip_serializing_if = "Map::is_empty")] limits: Limits,
    }
}

impl Rules for Network {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        for (field, message) in self.errors() {
            fields.fail(&field, message);
        }
    }
}

/// The hosts that one phase may reach, in the old form (`mode`, `domains`) or the new one (`allow`,
/// `presets`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NetworkPhase {
    /// `allow` opens exactly the listed domains. An empty list opens nothing.
    Mode {
        mode: NetworkMode,
        domains: Vec<String>,
    },
    Rules {
        allow: Vec<NetworkRule>,
        presets: Vec<String>,
    },
}

/// A host name, `service:NAME`, or a rule with details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NetworkRule {
    Name(String),
    Detailed(Box<DetailedRule>),
}

record! {
    /// A rule with details.
    [Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize]
    DetailedRule as "DetailedNetworkRule" {
        /// Host name, `*.` and a host name for the names below it, or an address.
        required host: Bounded<1, 255>,
        /// Ports of the host. Absent for 443 with TLS and 80 with HTTP.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] ports: Vec<u64>,
        /// Protocol that the connection must speak. Absent for `http` on port 80 and `tls` on other
        /// ports.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] protocol: RuleProtocol,
        /// Name of a secret that the server adds to requests.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] secret: String,
        /// HTTP methods that may be used.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] methods: Vec<String>,
        /// HTTP paths that may be requested. `*` matches within one part, a final `**` the rest.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] paths: Vec<String>,
        /// Decrypt TLS to read the requests.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] inspect: bool,
        /// Allow addresses of private networks. Every layer has to allow them.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] private: bool,
        /// Allow paths with an encoded slash (`/@scope%2fname`).
        optional #[serde(default, skip_serializing_if = "Option::is_none")] encoded_slash: bool,
        /// Allow requests to switch to another protocol, such as WebSocket.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] upgrade: bool,
    }
}

impl Rules for DetailedRule {
    fn restrict(schema: &mut Value) {
        schema["properties"]["ports"]["items"] = schema::whole(1, 65_535);
    }
}

/// Maximum number of rules in one list, and of presets.
const MOST_RULES: usize = 256;
const MOST_PRESETS: usize = 16;

impl NetworkPhase {
    /// Returns the field that asks for access, if any.
    pub(super) fn asks(&self) -> Option<&'static str> {
        match self {
            Self::Mode { mode: NetworkMode::Full, .. } => Some("mode"),
            Self::Mode { mode: NetworkMode::Allow, domains } if !domains.is_empty() => Some("domains"),
            Self::Mode { .. } => None,
            Self::Rules { allow, .. } if !allow.is_empty() => Some("allow"),
            Self::Rules { presets, .. } if !presets.is_empty() => Some("presets"),
            Self::Rules { .. } => None,
        }
    }

    /// Compiles the rules of the phase without its presets. Fields are relative to the layer.
    pub(super) fn rules(&self, phase: &str) -> Result<Vec<Rule>, Vec<(String, String)>> {
        let (list, rules): (_, Vec<NetworkRule>) = match self {
            Self::Mode { mode: NetworkMode::None, .. } => return Ok(Vec::new()),
            Self::Mode { mode: NetworkMode::Full, .. } => return Ok(vec![Rule::full(format!("{phase}.mode"))]),
            Self::Mode { domains, .. } => ("domains", domains.iter().cloned().map(NetworkRule::Name).collect()),
            Self::Rules { allow, .. } => ("allow", allow.clone()),
        };
        compile(&rules, &format!("{phase}.{list}"), Rule::allow)
    }

    pub(super) fn presets(&self) -> &[String] {
        match self {
            Self::Mode { .. } => &[],
            Self::Rules { presets, .. } => presets,
        }
    }
}

fn compile(
    rules: &[NetworkRule],
    list: &str,
    one: impl Fn(&NetworkRule, String) -> Result<Rule, RuleError>,
) -> Result<Vec<Rule>, Vec<(String, String)>> {
    if rules.len() > MOST_RULES {
        return Err(vec![(list.to_owned(), format!("at most {MOST_RULES} rules"))]);
    }
    let (mut compiled, mut errors) = (Vec::new(), Vec::new());
    for (index, rule) in rules.iter().enumerate() {
        let at = format!("{list}[{index}]");
        match one(rule, at.clone()) {
            Ok(rule) => compiled.push(rule),
            Err(RuleError { field: Some(field), message }) => errors.push((format!("{at}.{field}"), message)),
            Err(RuleError { field: None, message }) => errors.push((at, message)),
        }
    }
    if errors.is_empty() { Ok(compiled) } else { Err(errors) }
}

impl Network {
    /// Returns the rules of a phase. `None` if the layer says nothing about it.
    pub fn phase(&self, phase: Phase) -> Option<&NetworkPhase> {
        match phase {
            Phase::Setup => self.setup.as_ref(),
            Phase::Agent => self.agent.as_ref(),
        }
    }

    /// Returns true if the layer says nothing about access, in either phase.
    pub fn is_silent(&self) -> bool {
        self.setup.is_none() && self.agent.is_none()
    }

    /// Returns the path of the first field that asks for access. `None` if the layer asks for none.
    ///
    /// `deny` and `limits` only restrict, and a service is reachable only through a rule that names
    /// it.
    pub fn asks(&self) -> Option<String> {
        let phases = [("setup", &self.setup), ("agent", &self.agent)];
        phases.into_iter().find_map(|(phase, rules)| Some(format!("{phase}.{}", rules.as_ref()?.asks()?)))
    }

    /// Compiles the deny list.
    pub(super) fn denied(&self) -> Result<Vec<Rule>, Vec<(String, String)>> {
        compile(&self.deny, "deny", Rule::deny)
    }

    /// Returns the first field that only the platform may have.
    pub fn platform_only(&self) -> Option<&'static str> {
        let fields = [("services", !self.services.is_empty()), ("full", self.full.is_some())];
        fields.into_iter().find(|(_, given)| *given).map(|(field, _)| field)
    }

    /// Returns every error in the rules, each with its field.
    fn errors(&self) -> Vec<(String, String)> {
        let mut errors = Vec::new();
        for (name, phase) in [("setup", &self.setup), ("agent", &self.agent)] {
            let Some(phase) = phase else { continue };
            match phase.rules(name) {
                Err(found) => errors.extend(found),
                Ok(rules) => errors.extend(super::resolve::protocol_conflict(&rules)),
            }
            if phase.presets().len() > MOST_PRESETS {
                errors.push((format!("{name}.presets"), format!("at most {MOST_PRESETS} presets")));
            }
        }
        errors.extend(self.denied().err().unwrap_or_default());
        errors
    }
}

/// A phase has one of two forms, so the parser is not a record. Its schema is in `stead-api`.
impl Read for NetworkPhase {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let by_mode = fields.has("mode") || fields.has("domains");
        let by_rules = fields.has("allow") || fields.has("presets");
        let (mode, domains) = (fields.or("mode", NetworkMode::None), fields.or("domains", Vec::new()));
        let allow = fields.or("allow", Vec::new());
        let presets = fields.or("presets", Vec::<Bounded<1, 64>>::new()).into_iter().map(|text| text.0).collect();
        if by_mode && by_rules {
            fields.fail("mode", "give either mode and domains, or allow and presets");
        }
        fields.done();
        Some(if by_rules { Self::Rules { allow, presets } } else { Self::Mode { mode, domains } })
    }
}

impl Read for NetworkRule {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        if value.is_string() {
            return Bounded::<1, 253>::parse(value, at).map(Self::Name);
        }
        DetailedRule::read(value, at).map(|rule| Self::Detailed(Box::new(rule)))
    }
}

/// The kind of `services`: checked when a client declares it, and stored as given.
pub struct Services;

/// The kind of `limits`: checked when a client declares it, and stored as given.
pub struct Limits;

fn checked<T: Read>(value: Value, at: &mut FieldPath<'_>) -> Option<Map<String, Value>> {
    if !within_depth(&value, MAX_DEPTH) {
        return at.fail(format!("at most {MAX_DEPTH} levels deep"));
    }
    let Value::Object(fields) = value.clone() else { return at.fail("expected an object") };
    T::read(value, at).map(|_| fields)
}

impl Kind for Services {
    type Value = Map<String, Value>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        let services = checked::<BTreeMap<String, ServiceDeclaration>>(value, at)?;
        for name in services.keys() {
            if let Err(error) = name.parse::<ServiceName>() {
                return at.fail(error.to_string());
            }
        }
        Some(services)
    }

    fn schema() -> Value {
        serde_json::json!({
            "type": "object",
            "propertyNames": {"pattern": "^([a-z][a-z0-9_-]*|[0-9]+[a-wyz_-][a-z0-9_-]*)$", "maxLength": 63},
            "additionalProperties": ServiceDeclaration::schema(),
        })
    }
}

impl Kind for Limits {
    type Value = Map<String, Value>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        checked::<LimitsDeclaration>(value, at)
    }

    fn schema() -> Value {
        LimitsDeclaration::schema()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::parse;

    fn network(value: Value) -> Network {
        parse::read(value).unwrap()
    }

    #[test]
    fn both_forms_say_whether_they_ask_for_anything() {
        for (value, asks) in [
            (json!({}), None),
            (json!({"setup": {"mode": "none", "domains": ["a.example"]}}), None),
            (json!({"setup": {"mode": "allow", "domains": []}}), None),
            (json!({"setup": {"mode": "allow", "domains": ["a.example"]}}), Some("setup.domains")),
            (json!({"agent": {"mode": "full"}}), Some("agent.mode")),
            (json!({"setup": {"allow": [], "presets": []}, "agent": {}}), None),
            (
                json!({"deny": ["a.example"], "limits": {"connections": 3}, "services": {"db": {"to": "http://127.0.0.1"}}}),
                None,
            ),
            (json!({"setup": {"allow": ["a.example"]}}), Some("setup.allow")),
            (json!({"agent": {"allow": [{"host": "a.example", "ports": [443]}]}}), Some("agent.allow")),
            (json!({"agent": {"presets": ["pypi"]}}), Some("agent.presets")),
        ] {
            let read = network(value.clone());
            assert_eq!(read.asks().as_deref(), asks, "{value}");
            // The value is stored as JSON and read back by serde.
            let stored = serde_json::to_value(&read).unwrap();
            assert_eq!(serde_json::from_value::<Network>(stored.clone()).unwrap(), read, "{stored}");
            assert_eq!(network(stored), read, "{value}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (value, field) in [
            (json!({"setup": {"mode": "some"}}), "setup.mode"),
            (json!({"setup": {"allow": [{"ports": [1]}]}}), "setup.allow[0].host"),
            (json!({"setup": {"allow": [{"host": "a", "ports": [0]}]}}), "setup.allow[0].ports"),
            (json!({"setup": {"allow": ["a.example", "*"]}}), "setup.allow[1]"),
            (json!({"setup": {"allow": ["*.com"]}}), "setup.allow[0]"),
            (json!({"setup": {"mode": "allow", "domains": ["https://a.example"]}}), "setup.domains[0]"),
            (json!({"setup": {"allow": ["203.0.113.7"]}}), "setup.allow[0]"),
            (json!({"setup": {"allow": [{"host": "a", "protocol": "tcp"}]}}), "setup.allow[0].ports"),
            (json!({"setup": {"allow": [{"host": "a", "ports": []}]}}), "setup.allow[0].ports"),
            (
                json!({"setup": {"allow": [{"host": "a", "ports": [1], "protocol": "tcp", "inspect": true}]}}),
                "setup.allow[0].protocol",
            ),
            (json!({"setup": {"allow": [{"host": "a", "protocol": "http", "secret": "s"}]}}), "setup.allow[0].secret"),
            (json!({"setup": {"allow": [{"host": "a", "methods": ["get"]}]}}), "setup.allow[0].methods"),
            (json!({"setup": {"allow": [{"host": "a", "paths": ["/a/../b"]}]}}), "setup.allow[0].paths"),
            (json!({"setup": {"allow": [{"host": "service:x"}]}}), "setup.allow[0].host"),
            (json!({"setup": {"allow": ["x.svc.stead"]}}), "setup.allow[0]"),
            (
                json!({"agent": {"allow": ["a.example", {"host": "a.example", "ports": [443], "protocol": "http"}]}}),
                "agent.allow[1]",
            ),
            (json!({"deny": [{"host": "a", "methods": ["GET"]}]}), "deny[0].methods"),
            (json!({"services": {"x": {"to": "ftp://a"}}}), "services.x.to"),
            (json!({"services": {"X.y": {"to": "http://a"}}}), "services"),
            (json!({"limits": {"connections": 0}}), "limits.connections"),
            (json!({"setup": {"allow": [{"host": "a", "port": 1}]}}), "setup.allow[0].port"),
            (json!({"services": []}), "services"),
            (json!({"egress": {}}), "egress"),
        ] {
            let invalid = parse::read::<Network>(value.clone()).unwrap_err();
            assert_eq!(invalid.errors[0].field, field, "{value}");
        }
        let both = json!({"setup": {"mode": "allow", "presets": ["x"]}});
        assert!(parse::read::<Network>(both).is_err());
    }
}
