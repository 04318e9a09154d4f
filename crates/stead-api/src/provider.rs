//! Providers, their warm pools and the setup results that they keep.

use serde::{Deserialize, Serialize};
use stead_core::capability::ProviderCapabilities;
use stead_core::config::ProviderName;
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::schema;

/// A provider of workspaces on this server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Provider {
    /// Name of the provider.
    #[schema(value_type = schema::ProviderName)]
    pub name: ProviderName,
    /// True if the provider can make workspaces now.
    pub healthy: bool,
    /// Reason why the provider is not healthy; `null` if it is.
    #[schema(required = true)]
    pub detail: Option<String>,
    /// Features that the provider supports on this machine.
    #[schema(value_type = Object)]
    pub capabilities: ProviderCapabilities,
}

/// The warm pool of one agent type: boxes that are started ahead of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolEntry {
    /// Agent type whose sessions use the pool.
    pub agent_type: String,
    /// Provider that makes the boxes.
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    /// Key of everything that shapes a box. A session only takes a box whose key matches its own.
    pub key: String,
    /// Number of boxes that the pool keeps ready.
    pub target: u64,
    /// Number of boxes that are ready now.
    pub ready: u64,
    /// Number of sessions that got a box from the pool.
    pub hits: u64,
    /// Number of sessions that found no matching box in the pool.
    pub misses: u64,
    /// Number of boxes that the pool has made.
    pub fills: u64,
    /// Number of boxes that the pool removed unused.
    pub discarded: u64,
    /// Age of the oldest ready box in seconds; `null` if none is ready.
    #[schema(required = true)]
    pub oldest_seconds: Option<u64>,
}

/// The kept result of the setup commands of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SetupResult {
    /// Id of the result.
    pub id: String,
    /// Provider whose sessions can begin with it.
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    /// Project whose sessions can begin with it; `null` for sessions without a project.
    #[schema(value_type = Option<schema::Name>, required = true)]
    pub project: Option<Name>,
    /// Agent type of the session that made it.
    #[schema(value_type = schema::Name)]
    pub agent_type: Name,
    /// Commit of the session that made it; `null` without a repository.
    #[schema(required = true)]
    pub commit: Option<String>,
    /// Setup commands.
    pub commands: Vec<String>,
    /// Size on the disk.
    pub bytes: u64,
    /// Number of workspaces that use it now.
    pub users: u64,
    /// Time of its creation.
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    /// Time of its last use.
    #[schema(value_type = schema::Timestamp)]
    pub used_at: Timestamp,
}
