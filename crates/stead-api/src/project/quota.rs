//! Reservations of a project's sessions, next to the limits of its quotas.

use serde::{Deserialize, Serialize};
use stead_core::admission::{Allowed, Amounts};
use utoipa::ToSchema;

/// What the live sessions of a project reserve, next to its quotas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProjectUsage {
    /// All sessions of the project.
    pub project: QuotaUsage,
    /// Sessions of each user with live sessions, sorted by name.
    pub users: Vec<NamedUsage>,
    /// Sessions of each agent type with live sessions or a quota, sorted by name.
    pub agent_types: Vec<NamedUsage>,
    /// Sessions that may be created per minute; `null` for no limit.
    #[schema(required = true)]
    pub creates_per_minute: Option<u64>,
    /// Requests per second by holders of user tokens; `null` for no limit.
    #[schema(required = true)]
    pub requests_per_second: Option<u64>,
}

/// What the sessions of one user or agent type reserve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamedUsage {
    /// Name of the user or of the agent type.
    pub name: String,
    /// Amounts of its sessions.
    pub usage: QuotaUsage,
}

/// Amounts that sessions reserve and that their quota allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaUsage {
    /// Number of live sessions.
    pub sessions: Used,
    /// Number of live sessions that hold a workspace.
    pub boxes: Used,
    /// Sum of their CPU limits, in thousandths of a core.
    pub cpu: Used,
    /// Sum of their memory limits, in bytes.
    pub memory: Used,
    /// Sum of their disk limits, in bytes. For a project, also the blobs, images and setup results
    /// that it stores.
    pub disk: Used,
}

/// An amount in use, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Used {
    /// Amount in use.
    pub used: u64,
    /// Largest amount; `null` for no limit.
    #[schema(required = true)]
    pub allowed: Option<u64>,
}

impl QuotaUsage {
    pub fn new(used: &Amounts, allowed: &Allowed) -> Self {
        let quantity = |used, allowed| Used { used, allowed };
        Self {
            sessions: quantity(used.sessions, allowed.sessions),
            boxes: quantity(used.boxes, allowed.boxes),
            cpu: quantity(used.cpu_millis, allowed.cpu_millis),
            memory: quantity(used.memory_bytes, allowed.memory_bytes),
            disk: quantity(used.disk_bytes, allowed.disk_bytes),
        }
    }
}
