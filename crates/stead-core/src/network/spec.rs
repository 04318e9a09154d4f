//! The network policy of one session, as the journal records it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::limits::NetworkLimits;
use super::rule::{Rule, Target};
use super::service::{Service, ServiceName};
use super::{Layer, Phase};

/// The resolved policy of a session. It does not change when the declarations change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSpec {
    /// The layers that say something, from the outermost to the innermost. Every one must agree.
    pub layers: Vec<LayerRules>,
    /// The services that rules of the session name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<ServiceName, Service>,
    pub limits: NetworkLimits,
}

/// The rules of one layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRules {
    pub layer: Layer,
    /// Rules of the phase `setup`. `None` says nothing; an empty list allows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<Rule>>,
    /// Rules of the phase `agent`. `None` says nothing; an empty list allows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Vec<Rule>>,
    /// Rules that no allow rule of any layer overrides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<Rule>,
}

impl LayerRules {
    pub fn rules(&self, phase: Phase) -> Option<&[Rule]> {
        match phase {
            Phase::Setup => self.setup.as_deref(),
            Phase::Agent => self.agent.as_deref(),
        }
    }
}

impl NetworkSpec {
    pub fn layer(&self, layer: Layer) -> Option<&LayerRules> {
        self.layers.iter().find(|rules| rules.layer == layer)
    }

    /// Returns true if both the platform and the agent type open the whole network in a phase.
    pub fn is_full(&self, phase: Phase) -> bool {
        let full = |rules: &[Rule]| rules.iter().any(|rule| rule.host == Target::Any);
        let open = |layer: &LayerRules| layer.rules(phase).is_none_or(full);
        self.layers.iter().any(|layer| layer.rules(phase).is_some()) && self.layers.iter().all(open)
    }

    /// Returns the policy with further rules that deny.
    #[must_use]
    pub fn narrowed(mut self, deny: Vec<Rule>) -> Self {
        if !deny.is_empty() {
            self.layers.push(LayerRules { layer: Layer::Session, setup: None, agent: None, deny });
        }
        self
    }
}
