//! A provider and what it can do here.

use serde::{Deserialize, Serialize};
use stead_core::capability::ProviderCapabilities;
use stead_core::config::ProviderName;
use utoipa::ToSchema;

use crate::schema;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Provider {
    #[schema(value_type = schema::ProviderName)]
    pub name: ProviderName,
    pub healthy: bool,
    /// Why it is not healthy.
    #[schema(required = true)]
    pub detail: Option<String>,
    #[schema(value_type = Object)]
    pub capabilities: ProviderCapabilities,
}

/// Boxes that are kept ready for one agent type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolEntry {
    pub agent_type: String,
    #[schema(value_type = schema::ProviderName)]
    pub provider: ProviderName,
    /// Everything that shapes them; boxes of another key are not used.
    pub key: String,
    pub target: u64,
    pub ready: u64,
    pub hits: u64,
    pub misses: u64,
    pub fills: u64,
    pub discarded: u64,
    /// How long the oldest has waited.
    #[schema(required = true)]
    pub oldest_seconds: Option<u64>,
}
