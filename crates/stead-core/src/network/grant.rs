//! Changes of the policy of a running session: rules taken away, and rules granted for a time.

use serde::{Deserialize, Serialize};

use super::Phase;
use super::rule::Rule;
use super::spec::NetworkSpec;
use crate::Timestamp;

/// A rule that an administrator granted for a time. It counts as a rule of the agent type, so the
/// platform, the project and the task still have to allow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub rule: Rule,
    pub phase: Phase,
    /// The grant has no effect from this time on.
    pub until: Timestamp,
}

/// The policy of a session at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    pub spec: NetworkSpec,
    pub grants: Vec<Grant>,
}

/// The changes of a session's policy since it began.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Changes {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Rule>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.denied.is_empty() && self.grants.is_empty()
    }

    /// Adds grants, and forgets those that have ended.
    pub(crate) fn add(&mut self, grants: &[Grant], now: Timestamp) {
        self.grants.retain(|grant| now < grant.until);
        self.grants.extend(grants.iter().cloned());
    }

    /// Returns the policy at a time: with every narrowing, and without grants that have ended.
    pub fn in_force(&self, spec: &NetworkSpec, now: Timestamp) -> InForce {
        InForce {
            spec: spec.clone().narrowed(self.denied.clone()),
            grants: self.grants.iter().filter(|grant| now < grant.until).cloned().collect(),
        }
    }
}
