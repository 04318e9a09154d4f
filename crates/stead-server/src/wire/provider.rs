//! A provider and what it can do here.

use serde::Serialize;
use stead_core::capability::ProviderCapabilities;
use stead_core::config::ProviderName;
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
    provider: String,
    key: String,
    target: u64,
    ready: u64,
    hits: u64,
    misses: u64,
    discarded: u64,
}
