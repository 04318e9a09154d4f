//! A provider and what it can do here.

use serde::Serialize;
use stead_core::Timestamp;
use stead_core::capability::ProviderCapabilities;
use stead_core::config::ProviderName;
use stead_engine::PoolReport;
use stead_engine::ops::ProviderReport;
use stead_providers::Health;
use utoipa::ToSchema;

use crate::schema;

#[derive(Serialize, ToSchema)]
pub(crate) struct Provider {
    #[schema(value_type = schema::ProviderName)]
    name: ProviderName,
    healthy: bool,
    /// Why it is not healthy.
    #[schema(required = true)]
    detail: Option<String>,
    #[schema(value_type = Object)]
    capabilities: ProviderCapabilities,
}

impl From<ProviderReport> for Provider {
    fn from(report: ProviderReport) -> Self {
        let detail = match report.health {
            Health::Healthy => None,
            Health::Unhealthy { reason } => Some(reason),
        };
        Self { name: report.name, healthy: detail.is_none(), detail, capabilities: report.capabilities }
    }
}

/// Boxes that are kept ready for one agent type.
#[derive(Serialize, ToSchema)]
pub(crate) struct PoolEntry {
    agent_type: String,
    #[schema(value_type = schema::ProviderName)]
    provider: ProviderName,
    /// Everything that shapes them; boxes of another key are not used.
    key: String,
    target: u64,
    ready: u64,
    hits: u64,
    misses: u64,
    fills: u64,
    discarded: u64,
    /// How long the oldest has waited.
    #[schema(required = true)]
    oldest_seconds: Option<u64>,
}

impl PoolEntry {
    pub(crate) fn at(report: PoolReport, now: Timestamp) -> Self {
        let PoolReport { agent_type, provider, key, target, ready, hits, misses, fills, discarded, oldest } = report;
        let age = |since: Timestamp| u64::try_from((now.millis() - since.millis()) / 1_000).unwrap_or(0);
        let oldest_seconds = oldest.map(age);
        Self { agent_type, provider, key, target, ready, hits, misses, fills, discarded, oldest_seconds }
    }
}
