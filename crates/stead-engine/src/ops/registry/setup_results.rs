//! Lists and removes kept setup results.

use serde_json::Value;
use stead_core::config::ProviderName;
use stead_core::setup_cache;
use stead_core::spec::SessionSpec;
use stead_core::{Actor, Name, Resource};
use stead_providers::{ProviderError, SetupEntry};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
use crate::limits::storage;
use crate::ops::boxed;

/// A kept result, with the provider whose sessions it serves.
#[derive(Debug, Clone)]
pub struct KeptSetup {
    pub provider: ProviderName,
    pub entry: SetupEntry,
}

fn failed(error: ProviderError) -> OpError {
    OpError::SetupResults { reason: error.to_failure().message }
}

/// Lists the kept results of all providers, the most recently used first.
#[boxed]
pub async fn setup_results(engine: &Engine) -> Result<Vec<KeptSetup>, OpError> {
    let mut found = Vec::new();
    for provider in engine.providers().iter() {
        if let Some(disk) = provider.disk_usage() {
            let entries = disk.setups().await.map_err(failed)?;
            found.extend(entries.into_iter().map(|entry| KeptSetup { provider: provider.name(), entry }));
        }
    }
    found.sort_by_key(|kept| std::cmp::Reverse(kept.entry.used_at));
    Ok(found)
}

/// Removes a kept result. Sessions that began with it keep their files.
#[boxed]
pub async fn remove_setup_result(engine: &Engine, actor: &Actor, id: String) -> Result<(), OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.to_its_end(async move { remove(&work, &actor, &id).await }).await
}

async fn remove(engine: &Engine, actor: &Actor, id: &str) -> Result<(), OpError> {
    for provider in engine.providers().iter() {
        if let Some(disk) = provider.disk_usage()
            && disk.remove_setup(id.to_owned()).await.map_err(failed)?
        {
            storage::count_setup_results(engine).await?;
            let entry = audit::admin_change(actor, "setup_result", id, &Value::Null.to_string(), clock::now());
            engine.store().record_audit(vec![entry]).await?;
            return Ok(());
        }
    }
    Err(OpError::NotFound { what: Resource::SetupResult, id: id.to_owned() })
}

/// Removes the kept results of a project that is being deleted.
pub(crate) async fn remove_setup_results_of(engine: &Engine, project: &Name) -> Result<(), OpError> {
    for kept in setup_results(engine).await? {
        if kept.entry.about.project.as_ref() == Some(project) {
            match remove(engine, &Actor::System, &kept.entry.id).await {
                // The collector removed it first.
                Err(OpError::NotFound { .. }) => {}
                removed => removed?,
            }
        }
    }
    Ok(())
}

/// The kept result that a session would begin with now, if its image and its files are those of the
/// result.
pub(crate) async fn fitting(engine: &Engine, spec: &SessionSpec, provider: ProviderName) -> Option<SetupEntry> {
    let shape = setup_cache::shape(spec, provider)?;
    let entries = engine.providers().get(provider).ok()?.disk_usage()?.setups().await.ok()?;
    entries.into_iter().find(|entry| entry.key.shape == shape)
}
