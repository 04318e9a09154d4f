//! The warm pool: boxes that are kept ready before anyone asks.
//!
//! A member is a box under a workspace id of its own. A session that takes one takes its id, so the journal lists it from the session's first
//! event on, and whoever is listed by no session is nobody's: after a crash recovery removes it like every other box that no
//! session lists, and the pool fills anew. Nothing of the pool is written down, so nothing about it can be wrong.
//!
//! The invariant: a member is taken out under the lock before anybody else can see it, and never comes back once a session may have
//! used it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stead_core::command::CreateOrder;
use stead_core::config::{ProviderName, ResourceLimits, WorkspaceConfig};
use stead_core::env::Env;
use stead_core::registry::AgentType;
use stead_core::spec::{WorkspaceSpec, image_roots};
use stead_core::{SessionId, Timestamp, WorkspaceId};
use tokio::sync::Notify;

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::{Page, agent_types, platform};

/// How often images and agent types are looked at when nothing is said to have changed.
const EVERY: Duration = Duration::from_secs(5);
const PAGE: u32 = 200;

#[derive(Default)]
pub(crate) struct Pool {
    entries: Mutex<Entries>,
    wake: Notify,
}

#[derive(Default)]
struct Entries {
    of: BTreeMap<String, Entry>,
    /// Members that a session has taken and not begun to use.
    taken: HashMap<WorkspaceId, ProviderName>,
}

struct Entry {
    provider: ProviderName,
    key: String,
    target: u64,
    ready: Vec<(WorkspaceId, Timestamp)>,
    hits: u64,
    misses: u64,
    fills: u64,
    discarded: u64,
}

/// What is kept ready for one agent type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolReport {
    pub agent_type: String,
    pub provider: ProviderName,
    pub key: String,
    pub target: u64,
    pub ready: u64,
    pub hits: u64,
    pub misses: u64,
    pub fills: u64,
    pub discarded: u64,
    /// Since when the oldest member waits.
    pub oldest: Option<Timestamp>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Every change is made in one piece: a panic elsewhere cannot leave it half made.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that something may have to be done.
    pub(crate) fn look(&self) {
        self.wake.notify_one();
    }

    /// Whether this workspace is a member that waits to be bound, and whose; asked once.
    pub(crate) fn claim(&self, workspace: WorkspaceId) -> Option<ProviderName> {
        self.lock().taken.remove(&workspace)
    }

    pub(crate) fn report(&self) -> Vec<PoolReport> {
        let report = |(agent_type, entry): (&String, &Entry)| PoolReport {
            agent_type: agent_type.clone(),
            provider: entry.provider,
            key: entry.key.clone(),
            target: entry.target,
            ready: entry.ready.len() as u64,
            hits: entry.hits,
            misses: entry.misses,
            fills: entry.fills,
            discarded: entry.discarded,
            oldest: entry.ready.first().map(|(_, since)| *since),
        };
        self.lock().of.iter().map(report).collect()
    }

    /// A member for a session of this agent type, whose box must have the shape of `key`.
    fn take(&self, agent_type: &str, provider: ProviderName, key: &str) -> Option<WorkspaceId> {
        let mut entries = self.lock();
        let entry = entries.of.get_mut(agent_type)?;
        let fits = entry.provider == provider && entry.key == key && !entry.ready.is_empty();
        if !fits {
            entry.misses += 1;
            return None;
        }
        entry.hits += 1;
        let (member, _) = entry.ready.remove(0);
        entries.taken.insert(member, provider);
        Some(member)
    }
}

/// Gives the workspace the id of a box that is ready, if there is one of its shape.
pub(crate) async fn take(engine: &Engine, agent_type: &str, spec: &mut WorkspaceSpec) {
    let keeps = engine.pool().lock().of.contains_key(agent_type);
    let (Some(provider), true) = (spec.providers.first().copied(), keeps) else { return };
    let order = order(spec.id, (spec.base_image.clone(), spec.image_roots.clone()), &spec.limits);
    // The shape as it is now: an image that was replaced since has another one.
    let key = match engine.providers().get(provider).ok().and_then(|provider| provider.warm_boxes()) {
        Some(warm) => warm.shape(&order).await.ok(),
        None => None,
    };
    if let Some(member) = engine.pool().take(agent_type, provider, &key.unwrap_or_default()) {
        spec.id = member;
    }
    engine.pool().look();
}

/// A session that took a member did not come to be: the member goes, since nobody can prove that it was never used.
pub(crate) async fn drop_taken(engine: &Engine, workspace: Option<WorkspaceId>) {
    let Some(workspace) = workspace else { return };
    if let Some(provider) = engine.pool().claim(workspace) {
        remove(engine, provider, workspace).await;
    }
}

/// Keeps the pool as the agent types want it until the engine stops, and then empties it.
pub(crate) async fn run(engine: Engine) {
    loop {
        if let Err(error) = tend(&engine).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot tend the warm pool");
        }
        tokio::select! {
            () = engine.pool().wake.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
            () = engine.stopping().cancelled() => break,
        }
    }
    let entries = std::mem::take(&mut engine.pool().lock().of);
    for entry in entries.into_values() {
        for (member, _) in entry.ready {
            remove(&engine, entry.provider, member).await;
        }
    }
}

/// One round: what is wanted, what is there, the difference.
async fn tend(engine: &Engine) -> Result<(), OpError> {
    let wanted = wanted(engine).await?;
    let mut unwanted = Vec::new();
    {
        let mut entries = engine.pool().lock();
        let gone = |name: &String| !wanted.iter().any(|(agent_type, ..)| agent_type == name);
        let names: Vec<String> = entries.of.keys().filter(|name| gone(name)).cloned().collect();
        for entry in names.iter().filter_map(|name| entries.of.remove(name)) {
            unwanted.extend(entry.ready.into_iter().map(|(member, _)| (entry.provider, member)));
        }
        for (agent_type, provider, key, target, _) in &wanted {
            let entry = entries.of.entry(agent_type.clone()).or_insert_with(|| Entry {
                provider: *provider,
                key: key.clone(),
                target: *target,
                ready: Vec::new(),
                hits: 0,
                misses: 0,
                fills: 0,
                discarded: 0,
            });
            let reshaped = entry.key != *key || entry.provider != *provider;
            let keep = if reshaped { 0 } else { usize::try_from(*target).unwrap_or(usize::MAX) };
            let from = entry.provider;
            let surplus: Vec<_> = entry.ready.drain(keep.min(entry.ready.len())..).collect();
            entry.discarded += surplus.len() as u64;
            unwanted.extend(surplus.into_iter().map(|(member, _)| (from, member)));
            (entry.provider, entry.key, entry.target) = (*provider, key.clone(), *target);
        }
    }
    for (provider, member) in unwanted {
        remove(engine, provider, member).await;
    }
    for (agent_type, provider, key, _, shape) in wanted {
        fill(engine, &agent_type, provider, &key, &shape).await;
    }
    Ok(())
}

type Wanted = (String, ProviderName, String, u64, CreateOrder);

/// Every agent type that wants boxes ready, with the shape they must have now.
async fn wanted(engine: &Engine) -> Result<Vec<Wanted>, OpError> {
    let platform = platform(engine).await?;
    let (mut wanted, mut after) = (Vec::new(), None);
    loop {
        let page = agent_types(engine, &Page { after: after.clone(), limit: PAGE }).await?;
        let full = page.len() >= PAGE as usize;
        after = page.last().map(|agent_type| agent_type.id.to_string());
        for AgentType { id, workspace: config, .. } in page.into_iter().filter(|one| wants(&one.workspace)) {
            let usual = platform.defaults.provider.unwrap_or(engine.settings().default_provider);
            let name = config.provider.unwrap_or(usual);
            let limits =
                config.resource_limits.or(&platform.defaults.resource_limits).or(&engine.settings().default_limits);
            let Ok(roots) = image_roots(config.base_image.as_deref(), &platform) else { continue };
            let order = order(WorkspaceId::from_bits(0), (config.base_image.clone(), roots), &limits);
            let Ok(provider) = engine.providers().get(name) else { continue };
            let Some(warm) = provider.warm_boxes() else { continue };
            match warm.shape(&order).await {
                Ok(key) => wanted.push((id.to_string(), name, key, config.warm_pool, order)),
                Err(error) => {
                    tracing::warn!(agent_type = %id, error = %error.to_failure().message, "cannot keep boxes ready");
                }
            }
        }
        if !full {
            return Ok(wanted);
        }
    }
}

fn wants(config: &WorkspaceConfig) -> bool {
    config.enabled && config.warm_pool > 0
}

/// Makes members until there are enough. One after the other: sessions that wait for a box come first.
async fn fill(engine: &Engine, agent_type: &str, provider: ProviderName, key: &str, shape: &CreateOrder) {
    let Some(maker) = engine.providers().get(provider).ok().and_then(|provider| provider.warm_boxes()) else { return };
    while !engine.stopping().is_cancelled() {
        let lacking = |entry: &Entry| entry.key == key && (entry.ready.len() as u64) < entry.target;
        if !engine.pool().lock().of.get(agent_type).is_some_and(lacking) {
            return;
        }
        let member = WorkspaceId::from_bits(clock::id_bits());
        let order = CreateOrder { workspace: member, ..shape.clone() };
        if let Err(error) = maker.warm(&order).await {
            tracing::warn!(agent_type, error = %error.to_failure().message, "cannot make a box to keep ready");
            return;
        }
        let kept = {
            let mut entries = engine.pool().lock();
            let entry = entries.of.get_mut(agent_type).filter(|entry| entry.key == key);
            entry.is_some_and(|entry| {
                entry.fills += 1;
                entry.ready.push((member, clock::now()));
                true
            })
        };
        if !kept {
            remove(engine, provider, member).await;
        }
    }
}

async fn remove(engine: &Engine, provider: ProviderName, member: WorkspaceId) {
    let Ok(provider) = engine.providers().get(provider) else { return };
    if let Err(error) = provider.remove(member).await {
        // It is listed by nobody: the next start removes it.
        tracing::warn!(%member, error = %error.to_failure().message, "cannot remove a box that was kept ready");
    }
}

/// A box of nobody's: the image and the disk shape it, everything else is bound when it is claimed.
fn order(
    workspace: WorkspaceId,
    (base_image, image_roots): (Option<String>, Vec<String>),
    limits: &ResourceLimits,
) -> CreateOrder {
    let limits = ResourceLimits { disk: limits.disk.clone(), ..ResourceLimits::default() };
    let (session, env) = (SessionId::from_bits(0), Env::default());
    CreateOrder { workspace, session, limits, env, base_image, image_roots, image_digest: None }
}
