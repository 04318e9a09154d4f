//! Network access as a policy layer requests it.
//!
//! No provider can give a box a network yet. This module therefore reads a `network` field only far
//! enough to store it and to detect a request for access. A session with such a request is refused.
//! Ignoring the rules would suggest that they are in force.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

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
    /// Network access. No provider can give a box network access yet: a session for which any layer
    /// asks for some is refused with 422 `network_not_available`.
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    defaults Network as "Network" {
        /// Access while the workspace is prepared.
        default(NetworkPhase::default()) setup: NetworkPhase,
        /// Access while the agent works.
        default(NetworkPhase::default()) agent: NetworkPhase,
        /// Rules that no other rule overrides.
        default(Vec::new()) #[serde(default, skip_serializing_if = "Vec::is_empty")] deny: Vec<NetworkRule>,
        /// Services that rules name as `service:NAME`; only of the platform.
        default(Map::new()) #[serde(default, skip_serializing_if = "Map::is_empty")] services: AnyObject,
        /// Limits of connections and bytes.
        default(Map::new()) #[serde(default, skip_serializing_if = "Map::is_empty")] limits: AnyObject,
    }
}

impl Rules for Network {}

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
    [Debug, Clone, PartialEq, Eq, Serialize, Deserialize]
    DetailedRule as "DetailedNetworkRule" {
        /// Host name.
        required host: Bounded<1, 253>,
        /// Ports of the host.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] ports: Vec<u64>,
        /// Protocol that the connection must speak.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] protocol: RuleProtocol,
        /// Name of a secret that the server adds to requests.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] secret: String,
        /// HTTP methods that may be used.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] methods: Vec<String>,
        /// HTTP paths that may be requested.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] paths: Vec<String>,
        /// Decrypt TLS to check methods and paths.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] inspect: bool,
        /// Allow addresses of private networks.
        optional #[serde(default, skip_serializing_if = "Option::is_none")] private: bool,
    }
}

impl Rules for DetailedRule {
    fn check(&self, fields: &mut Fields<'_, '_>, _: &[&str]) {
        if self.ports.iter().flatten().any(|port| !(1..=65_535).contains(port)) {
            fields.fail("ports", "every port must be between 1 and 65535");
        }
    }

    fn restrict(schema: &mut Value) {
        schema["properties"]["ports"]["items"] = schema::whole(1, 65_535);
    }
}

impl Default for NetworkPhase {
    fn default() -> Self {
        Self::Mode { mode: NetworkMode::None, domains: Vec::new() }
    }
}

impl NetworkPhase {
    /// Returns the field that requests access, if any.
    fn asks(&self) -> Option<&'static str> {
        match self {
            Self::Mode { mode: NetworkMode::Full, .. } => Some("mode"),
            Self::Mode { mode: NetworkMode::Allow, domains } if !domains.is_empty() => Some("domains"),
            Self::Mode { .. } => None,
            Self::Rules { allow, .. } if !allow.is_empty() => Some("allow"),
            Self::Rules { presets, .. } if !presets.is_empty() => Some("presets"),
            Self::Rules { .. } => None,
        }
    }
}

impl Network {
    /// Returns the path of the first field that requests access. `None` if the layer requests none.
    ///
    /// `deny` and `limits` only restrict, and a service is reachable only through a rule that names
    /// it.
    pub fn asks(&self) -> Option<String> {
        let phases = [("setup", &self.setup), ("agent", &self.agent)];
        phases.into_iter().find_map(|(phase, rules)| Some(format!("{phase}.{}", rules.asks()?)))
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

/// The kind of an object that is stored without interpretation.
pub struct AnyObject;

impl Kind for AnyObject {
    type Value = Map<String, Value>;

    fn parse(value: Value, at: &mut FieldPath<'_>) -> Option<Self::Value> {
        match value {
            deep if !within_depth(&deep, MAX_DEPTH) => at.fail(format!("at most {MAX_DEPTH} levels deep")),
            Value::Object(fields) => Some(fields),
            _ => at.fail("expected an object"),
        }
    }

    fn schema() -> Value {
        json!({"type": "object"})
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
            (json!({"deny": ["a.example"], "limits": {"connections": 3}, "services": {"db": {}}}), None),
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
