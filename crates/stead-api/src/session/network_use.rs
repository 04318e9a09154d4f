//! What a session's box reached and was refused.

use serde::{Deserialize, Serialize};
use stead_core::network::{NetworkRule, Phase, Reachable, RefusedContact, UsedHost as Used};
use utoipa::ToSchema;

/// Network of a session: the hosts it can reach now, and what its box did with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NetworkReport {
    /// `setup` while setup commands run, then `agent`.
    #[schema(value_type = String)]
    pub phase: Phase,
    /// Hosts that the box can reach in this phase.
    #[schema(value_type = Vec<Object>)]
    pub reachable: Vec<Reachable>,
    /// Hosts that the box connected to, in all phases.
    pub used: Vec<UsedHost>,
    /// Connections that were refused, each host, port and reason once.
    pub refused: Vec<RefusedHost>,
    /// True if the server once ended without a count, so that `used` misses some bytes.
    pub uncounted: bool,
}

/// A host that the box connected to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsedHost {
    /// Name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Connections so far.
    pub connections: u64,
    /// Bytes that the box sent.
    pub bytes_out: u64,
    /// Bytes that the box received.
    pub bytes_in: u64,
}

/// A refused connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RefusedHost {
    /// Name or address.
    pub host: String,
    /// Port; 0 if the name was refused before any connection.
    pub port: u16,
    /// Reason, such as `not_allowed`, `denied`, `name_mismatch` or `too_many_connections`.
    pub why: String,
    /// Layer of the policy that refused it. Absent if no single layer did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub layer: Option<String>,
    /// A rule that would allow it, to be added to that layer. Absent if no rule would.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub draft: Option<NetworkRule>,
}

/// What the network refused during a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CallNetwork {
    /// Connections that were refused, each host, port and reason once.
    pub refused: Vec<RefusedHost>,
}

impl From<&Used> for UsedHost {
    fn from(used: &Used) -> Self {
        let Used { host, port, connections, bytes_out, bytes_in } = used.clone();
        Self { host, port, connections, bytes_out, bytes_in }
    }
}

impl From<RefusedContact> for RefusedHost {
    fn from(refused: RefusedContact) -> Self {
        let RefusedContact { host, port, why, layer, draft, .. } = refused;
        Self { host, port, why: why.to_string(), layer: layer.map(|layer| layer.to_string()), draft }
    }
}
