//! Provider capabilities, and the check that a policy is possible with a provider and an agent
//! type.

use serde::{Deserialize, Serialize};

use crate::config::ProviderName;
use crate::network::Reach;
use crate::parse::words;
use crate::policy::PolicyKind;
use crate::registry::{AgentCapabilities, Side};
use crate::tool::ToolName;

words!(
    /// A resource that a provider may be able to limit.
    LimitKind, "limit", {
        Cpu = "cpu",
        Memory = "memory",
        Disk = "disk",
        Pids = "pids",
    }
);

words!(
    /// The place where a workspace's files survive a restart of the server.
    FileStorage, "file home", {
        /// The journal: the tree is the fold of the recorded changes.
        Journal = "journal",
        /// The host, beside or inside the box.
        Host = "host",
    }
);

/// The capabilities that a provider reports. Code checks these and never the provider's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderCapabilities {
    pub workspace_provider: Vec<Side>,
    pub policies: Vec<PolicyKind>,
    pub tools: Vec<ToolName>,
    pub enforced_limits: Vec<LimitKind>,
    pub setup_commands: bool,
    pub files: FileStorage,
    /// The connections of a box that the provider can carry.
    #[serde(default = "no_reach")]
    pub network: Reach,
}

fn no_reach() -> Reach {
    Reach::None
}

/// The reason why a policy is not possible: the need, and the capabilities that do not meet it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incompatible {
    #[error(
        "workspace policy '{policy}' needs capabilities.sandbox.workspace_provider to include {}, but the agent type declares {}",
        quoted(.needs, " or "),
        list(.declared)
    )]
    AgentType { policy: PolicyKind, needs: Vec<Side>, declared: Vec<Side> },
    #[error(
        "workspace policy '{policy}' needs a provider whose workspace_provider includes {}, but provider '{provider}' offers {}",
        quoted(.needs, " or "),
        list(.offered)
    )]
    ProviderSide { policy: PolicyKind, provider: ProviderName, needs: Vec<Side>, offered: Vec<Side> },
    #[error("provider '{provider}' cannot make a workspace with policy '{policy}'; it can make: {}", words_of(.offered))]
    ProviderPolicy { policy: PolicyKind, provider: ProviderName, offered: Vec<PolicyKind> },
}

fn quoted(sides: &[Side], separator: &str) -> String {
    sides.iter().map(|side| format!("'{side}'")).collect::<Vec<_>>().join(separator)
}

fn list(sides: &[Side]) -> String {
    if sides.is_empty() { "none".to_owned() } else { quoted(sides, ", ") }
}

fn words_of(kinds: &[PolicyKind]) -> String {
    if kinds.is_empty() {
        "none".to_owned()
    } else {
        kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// The sides that can serve a policy. One of them is enough.
pub fn needed_sides(policy: PolicyKind) -> &'static [Side] {
    match policy {
        PolicyKind::Mount => &[Side::Host],
        PolicyKind::Git => &[Side::Guest],
        PolicyKind::Empty | PolicyKind::Bundle => &[Side::Host, Side::Guest],
    }
}

/// Checks that the agent type can work with the policy, independent of the provider.
pub fn check_agent_type(policy: PolicyKind, agent: &AgentCapabilities) -> Result<(), Incompatible> {
    let needs = needed_sides(policy);
    match &agent.workspace_provider {
        Some(declared) if !declared.iter().any(|side| needs.contains(side)) => {
            Err(Incompatible::AgentType { policy, needs: needs.to_vec(), declared: declared.clone() })
        }
        _ => Ok(()),
    }
}

/// Checks that a provider can create the workspace on a side that the agent type can use.
pub fn check_provider(
    policy: PolicyKind,
    agent: &AgentCapabilities,
    provider: ProviderName,
    offered: &ProviderCapabilities,
) -> Result<(), Incompatible> {
    let usable = |side: &Side| agent.workspace_provider.as_ref().is_none_or(|declared| declared.contains(side));
    let needs: Vec<Side> = needed_sides(policy).iter().copied().filter(usable).collect();
    if !offered.workspace_provider.iter().any(|side| needs.contains(side)) {
        return Err(Incompatible::ProviderSide {
            policy,
            provider,
            needs,
            offered: offered.workspace_provider.clone(),
        });
    }
    if !offered.policies.contains(&policy) {
        return Err(Incompatible::ProviderPolicy { policy, provider, offered: offered.policies.clone() });
    }
    Ok(())
}
