//! Lists the providers with their health and capabilities.

use stead_core::capability::ProviderCapabilities;
use stead_core::config::ProviderName;
use stead_providers::Health;

use crate::engine::Engine;
use crate::ops::boxed;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderReport {
    pub name: ProviderName,
    pub health: Health,
    pub capabilities: ProviderCapabilities,
}

#[boxed]
pub async fn providers(engine: &Engine) -> Vec<ProviderReport> {
    let mut reports = Vec::new();
    for provider in engine.providers().iter() {
        let health = provider.health().await;
        reports.push(ProviderReport { name: provider.name(), health, capabilities: provider.capabilities() });
    }
    reports
}
