//! Network access as a policy layer requests it.
//!
//! No provider can give a box a network yet. This module therefore reads a `network` field only far
//! enough to store it and to detect a request for access. A session with such a request is refused.
//! Ignoring the rules would suggest that they are in force.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::Bounded;
use crate::parse::{FieldPath, Fields, MAX_DEPTH, Read, within_depth, words};

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

/// The `network` field of the platform, a project, an agent type or a task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Network {
    /// Access while the workspace is prepared.
    pub setup: NetworkPhase,
    /// Access while the agent works.
    pub agent: NetworkPhase,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<NetworkRule>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub services: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub limits: Map<String, Value>,
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetailedRule {
    pub host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<RuleProtocol>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<bool>,
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

impl Read for Network {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let network = Self {
            setup: fields.or("setup", NetworkPhase::default()),
            agent: fields.or("agent", NetworkPhase::default()),
            deny: fields.or("deny", Vec::new()),
            services: fields.or("services", AnyObject::default()).0,
            limits: fields.or("limits", AnyObject::default()).0,
        };
        fields.done();
        Some(network)
    }
}

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
            return Bounded::<1, 253>::read(value, at).map(|text| Self::Name(text.0));
        }
        let mut fields = Fields::of(value, at)?;
        let host = fields.required::<Bounded<1, 253>>("host");
        let ports = fields.optional::<Vec<u64>>("ports");
        let (protocol, secret) = (fields.optional("protocol"), fields.optional("secret"));
        let (methods, paths) = (fields.optional("methods"), fields.optional("paths"));
        let (inspect, private) = (fields.optional("inspect"), fields.optional("private"));
        if ports.iter().flatten().any(|port| !(1..=65_535).contains(port)) {
            fields.fail("ports", "every port must be between 1 and 65535");
        }
        fields.done();
        let rule = |host| DetailedRule { host, ports, protocol, methods, paths, secret, inspect, private };
        host.map(|host| Self::Detailed(Box::new(rule(host.0))))
    }
}

/// An object that is stored without interpretation.
#[derive(Default)]
struct AnyObject(Map<String, Value>);

impl Read for AnyObject {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            deep if !within_depth(&deep, MAX_DEPTH) => at.fail(format!("at most {MAX_DEPTH} levels deep")),
            Value::Object(fields) => Some(Self(fields)),
            _ => at.fail("expected an object"),
        }
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
