//! The quotas of projects, and the limits that a new session must fit into.
//!
//! One server owns the store, so this process sees every change of a quota and keeps the quotas in
//! memory.

use std::collections::HashMap;
use std::sync::Arc;

use stead_core::admission::{self, Allowed, Limit, Resources, Scope};
use stead_core::quota::Quotas;
use stead_core::spec::SessionSpec;
use stead_core::{Actor, Name, Rejection};
use stead_store::Admission;
use tokio::sync::RwLock;

use crate::engine::{BoxMemory, Engine};
use crate::error::OpError;

/// Number of projects in memory. A client can ask for projects that do not exist, so the number is
/// bounded.
const MOST_PROJECTS: usize = 10_000;

/// The quotas of projects that were read or set. Setting holds the lock while it writes, so that a
/// concurrent read cannot bring an older version back.
#[derive(Default)]
pub(crate) struct QuotaCache(pub(crate) RwLock<HashMap<Name, Arc<Quotas>>>);

impl QuotaCache {
    pub(crate) async fn forget(&self, project: &str) {
        self.0.write().await.retain(|name, _| name.as_str() != project);
    }

    pub(crate) async fn get(&self, project: &Name) -> Option<Arc<Quotas>> {
        self.0.read().await.get(project).cloned()
    }
}

/// Adds an entry. An overfull cache begins anew.
pub(crate) fn remember(known: &mut HashMap<Name, Arc<Quotas>>, project: &Name, quotas: Arc<Quotas>) {
    if known.len() >= MOST_PROJECTS {
        known.clear();
    }
    known.insert(project.clone(), quotas);
}

/// Returns the limits for a new session and `places - 1` more that are equal to it. Refuses a
/// workspace without a limit that a quota needs.
pub(crate) async fn admission(
    engine: &Engine,
    actor: &Actor,
    spec: &SessionSpec,
    places: u32,
) -> Result<Admission, OpError> {
    let settings = engine.settings();
    let allowed = Allowed { boxes: Some(settings.max_sessions.into()), ..Allowed::default() };
    let mut limits = vec![Limit { scope: Scope::Platform, allowed }];
    let on_host = spec.workspace.as_ref().is_some_and(|workspace| Resources::of(workspace).on_host);
    if let Some(memory) = settings.box_memory.filter(|_| on_host) {
        let allowed = Allowed { memory_bytes: Some(memory.allowed()), ..Allowed::default() };
        limits.push(Limit { scope: Scope::Host, allowed });
    }
    if let Some(project) = &spec.project {
        let quotas = crate::ops::effective_quotas(engine, project).await?;
        limits.extend(quotas.limits(project, admission::owner(actor), &spec.agent_type));
    }
    if let Some(workspace) = &spec.workspace
        && let Some((scope, quantity)) = admission::unlimited(&limits, &workspace.limits)
    {
        return Err(Rejection::LimitRequired { scope, quantity }.into());
    }
    Ok(Admission { places, limits })
}

impl BoxMemory {
    /// The largest sum of memory limits, in bytes.
    pub fn allowed(&self) -> u64 {
        // A product beyond the range of u64 becomes the largest number, which sets no limit.
        (self.host_bytes as f64 * self.overcommit) as u64
    }
}
