//! The network of a session: what it can reach, and why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::network::{
    Finding, LayerRules, NetworkLimits, NetworkRule, NetworkSpec, Phase, Reach, Reachable, Service, ServiceName,
    reachable,
};
use stead_core::session::Session;
use stead_core::{Timestamp, network};
use utoipa::ToSchema;

use crate::request::{Kind, Rules, Whole, request};
use crate::schema;

/// Hosts that a session can reach on one port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReachableHost {
    /// Host name, `*.` and a host name for the names below it, `*` for all, an address, or
    /// `service:NAME`.
    pub host: String,
    /// Port; `null` for every port.
    #[schema(required = true)]
    pub port: Option<u16>,
    /// Protocol that the connection must speak: `tls`, `http` or `tcp`, which is any.
    pub protocol: String,
    /// Treatment of the bytes by the server: `passed`, `service` or `inspected`.
    pub how: String,
    /// True if the host may have a private address.
    pub private: bool,
    /// Names of the secrets that the server adds to some requests.
    pub secrets: Vec<String>,
}

impl From<Reachable> for ReachableHost {
    fn from(entry: Reachable) -> Self {
        Self {
            host: entry.host.to_string(),
            port: entry.port,
            protocol: entry.protocol.to_string(),
            how: entry.how.to_string(),
            private: entry.private,
            secrets: entry.secrets.iter().map(ToString::to_string).collect(),
        }
    }
}

fn hosts(spec: &NetworkSpec, phase: Phase) -> Vec<ReachableHost> {
    reachable(spec, phase, &[]).into_iter().map(ReachableHost::from).collect()
}

/// Network of a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkspaceNetwork {
    /// Connections that the box can make: `none`, `named` (to names, on the ports of the rules) or
    /// `captured` (to any address and port). The rules decide which of them succeed.
    #[schema(value_type = String)]
    pub reach: Reach,
    /// Hosts that setup commands can reach.
    pub setup: Vec<ReachableHost>,
    /// Hosts that the agent can reach, without grants.
    pub agent: Vec<ReachableHost>,
    /// Hosts that an administrator took away from the running session.
    pub denied: Vec<String>,
    /// Access that an administrator granted for a time. It may have ended.
    pub grants: Vec<NetworkGrant>,
}

/// Network access that an administrator granted for a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NetworkGrant {
    /// Host of the rule.
    pub host: String,
    /// `setup` or `agent`.
    #[schema(value_type = String)]
    pub phase: Phase,
    /// Time at which the grant ends.
    #[schema(value_type = schema::Timestamp)]
    pub until: Timestamp,
}

impl WorkspaceNetwork {
    pub(crate) fn of(session: &Session) -> Self {
        let spec = session.workspace_spec().and_then(|spec| spec.network.clone());
        let made = session.workspace.as_ref().and_then(|workspace| workspace.made.network);
        let changes = &session.network_changes;
        let spec = spec.map(|spec| spec.narrowed(changes.denied.clone()));
        let of = |phase| spec.as_ref().map(|spec| hosts(spec, phase)).unwrap_or_default();
        let grant = |grant: &network::Grant| NetworkGrant {
            host: grant.rule.host.to_string(),
            phase: grant.phase,
            until: grant.until,
        };
        Self {
            reach: made.unwrap_or(Reach::None),
            setup: of(Phase::Setup),
            agent: of(Phase::Agent),
            denied: changes.denied.iter().map(|rule| rule.host.to_string()).collect(),
            grants: changes.grants.iter().map(grant).collect(),
        }
    }
}

/// Network policy that a session would have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NetworkPlan {
    /// Hosts that setup commands could reach.
    pub setup: Vec<ReachableHost>,
    /// Hosts that the agent could reach.
    pub agent: Vec<ReachableHost>,
    /// Rules of each layer, from the platform to the task. A connection needs a rule in every layer
    /// that has rules for its phase, and no layer may deny it.
    #[schema(value_type = Vec<Object>)]
    pub layers: Vec<LayerRules>,
    /// Services that the rules name.
    #[schema(value_type = Object)]
    pub services: BTreeMap<ServiceName, Service>,
    /// Limits of the connections.
    #[schema(value_type = Object)]
    pub limits: NetworkLimits,
    /// Parts of the policy to look at before using it.
    pub findings: Vec<NetworkFinding>,
}

impl NetworkPlan {
    /// Returns the policy itself, for questions about a host.
    pub fn policy(&self) -> NetworkSpec {
        NetworkSpec { layers: self.layers.clone(), services: self.services.clone(), limits: self.limits.clone() }
    }
}

/// A part of a network policy to look at before using it. It does not stop a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NetworkFinding {
    /// `full`, `private_reach`, `secret_uninspected`, `secret_writes`, `shared_suffix` or
    /// `no_effect`.
    pub kind: String,
    /// `setup` or `agent`.
    #[schema(value_type = String)]
    pub phase: Phase,
    /// Description for people.
    pub message: String,
}

impl From<Finding> for NetworkFinding {
    fn from(finding: Finding) -> Self {
        Self { kind: finding.kind.to_string(), phase: finding.phase, message: finding.message }
    }
}

impl From<NetworkSpec> for NetworkPlan {
    fn from(spec: NetworkSpec) -> Self {
        Self {
            setup: hosts(&spec, Phase::Setup),
            agent: hosts(&spec, Phase::Agent),
            findings: network::findings(&spec).into_iter().map(NetworkFinding::from).collect(),
            layers: spec.layers,
            services: spec.services,
            limits: spec.limits,
        }
    }
}

/// A list of rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct RuleList(pub Vec<NetworkRule>);

impl stead_core::parse::Read for RuleList {
    fn read(value: Value, at: &mut stead_core::parse::FieldPath<'_>) -> Option<Self> {
        Vec::read(value, at).map(Self)
    }
}

impl Kind for RuleList {
    fn schema() -> Value {
        let mut list = schema::list(schema::named("NetworkRule"));
        list["minItems"] = 1.into();
        list
    }
}

impl Kind for Phase {
    fn schema() -> Value {
        schema::words(Self::ALL.iter().map(|word| word.as_str()))
    }
}

request! {
    /// Body of `POST /sessions/{id}/network:narrow`.
    NetworkNarrowing {
        /// Hosts that the session must not reach any more. Without `ports` a rule is about every
        /// port.
        required deny: RuleList,
    }
}

impl Rules for NetworkNarrowing {}

/// Longest time of a grant in seconds.
const MOST_SECONDS: u64 = stead_core::decide::MOST_GRANT_SECONDS;

request! {
    /// Body of `POST /sessions/{id}/network:grant`.
    NetworkGrantRequest {
        /// Hosts that the session may reach. Every layer but the agent type has to allow them too.
        required allow: RuleList,
        /// Phase of the grant.
        default(Phase::Agent) phase: Phase,
        /// Seconds from now until the grant ends, at most a week.
        required ttl_seconds: Whole<1, MOST_SECONDS>,
    }
}

impl Rules for NetworkGrantRequest {}
