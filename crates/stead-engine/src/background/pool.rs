//! The warm pool: pre-started boxes for agent types.
//!
//! A member is a box with a workspace id of its own. A session that takes a member takes its id, so
//! the journal names it from the session's first event on. After a crash, recovery removes every
//! box that no session names, including the pool's members, and the pool fills again. The pool has
//! no persistent state that could become inconsistent.
//!
//! Invariant: a member leaves the pool under the lock, so that only one session gets it. It never
//! returns once a session may have used it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stead_core::command::CreateOrder;
use stead_core::config::{ProviderName, ResourceLimits, WorkspaceConfig};
use stead_core::env::Env;
use stead_core::identity::Tenant;
use stead_core::network::{Reach, inspected_names};
use stead_core::registry::AgentType;
use stead_core::spec::{WorkspaceSpec, image_roots, resource_limits};
use stead_core::{SessionId, Timestamp, WorkspaceId};
use tokio::sync::Notify;

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::{Page, all_agent_types, platform};

/// Interval of the check for changed images and agent types without a notification.
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
    /// Members that a session has taken and not started to use.
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

/// The state of the pool for one agent type.
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
    /// The time since which the oldest member waits.
    pub oldest: Option<Timestamp>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Every change is complete under the lock, so a panic elsewhere cannot leave it half done.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the pool's task.
    pub(crate) fn look(&self) {
        self.wake.notify_one();
    }

    /// Returns the provider if this workspace is a taken member. Removes it from the taken members,
    /// so a second call returns `None`.
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

    /// Takes a member for a session of this agent type, if its box has the shape `key`.
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

/// Gives the workspace the id of a ready box of its shape, if there is one.
pub(crate) async fn take(engine: &Engine, agent_type: &str, tenant: &Tenant, spec: &mut WorkspaceSpec) {
    let keeps = engine.pool().lock().of.contains_key(agent_type);
    // A box with inspected hosts is made with certificates of its own.
    if spec.network.as_ref().is_some_and(|network| !inspected_names(network, &[]).is_empty()) {
        return;
    }
    let (Some(provider), true) = (spec.providers.first().copied(), keeps) else { return };
    // A project may mean its own image by the name that the platform's agent type gives.
    let order = CreateOrder {
        network: spec.box_network(),
        ..order(spec.id, tenant, (spec.base_image.clone(), spec.image_roots.clone()), &spec.limits)
    };
    // Uses the current shape: it differs if the image was replaced since.
    let key = match engine.providers().get(provider).ok().and_then(|provider| provider.warm_boxes()) {
        Some(warm) => warm.shape(&order).await.ok(),
        None => None,
    };
    if let Some(member) = engine.pool().take(agent_type, provider, &key.unwrap_or_default()) {
        spec.id = member;
    }
    engine.pool().look();
}

/// Removes the member of a session that could not be created. It cannot return to the pool, because
/// there is no proof that it was never used.
pub(crate) async fn drop_taken(engine: &Engine, workspace: Option<WorkspaceId>) {
    let Some(workspace) = workspace else { return };
    if let Some(provider) = engine.pool().claim(workspace) {
        remove(engine, provider, workspace).await;
    }
}

/// Maintains the pool for the agent types until the engine stops, then empties it.
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

/// One round: removes members that are not wanted and creates missing ones.
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

/// Returns every agent type with a warm pool, with the current shape of its boxes.
async fn wanted(engine: &Engine) -> Result<Vec<Wanted>, OpError> {
    let platform = platform(engine).await?;
    let (mut wanted, mut after) = (Vec::new(), None);
    loop {
        let page = all_agent_types(engine, &Page { after: after.clone(), limit: PAGE }).await?;
        let full = page.len() >= PAGE as usize;
        after = page.last().map(AgentType::key);
        for declared in page.into_iter().filter(|one| wants(&one.workspace)) {
            let (id, tenant, config) = (declared.key(), declared.tenant(), declared.workspace);
            let usual = platform.defaults.provider.unwrap_or(engine.settings().default_provider);
            let name = config.provider.unwrap_or(usual);
            let limits = resource_limits(&config, &platform, &engine.settings().default_limits, name);
            let Ok(roots) = image_roots(config.base_image.as_deref(), &platform) else { continue };
            let Ok(provider) = engine.providers().get(name) else { continue };
            // Whether a session gets a network also depends on other layers. Without one it takes
            // no box of the pool.
            let network = if config.network.asks().is_some() { provider.capabilities().network } else { Reach::None };
            let image = (config.base_image.clone(), roots);
            let order = CreateOrder { network, ..order(WorkspaceId::from_bits(0), &tenant, image, &limits) };
            let Some(warm) = provider.warm_boxes() else { continue };
            match warm.shape(&order).await {
                Ok(key) => wanted.push((id, name, key, config.warm_pool, order)),
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

/// Creates members until there are enough. One at a time, so that sessions that wait for a box come
/// first.
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
        // No session names the box, so the next start removes it.
        tracing::warn!(%member, error = %error.to_failure().message, "cannot remove a box that was kept ready");
    }
}

/// An order for a box without a session. Only the image and the disk limit shape it. Everything
/// else is set when a session claims it.
fn order(
    workspace: WorkspaceId,
    tenant: &Tenant,
    (base_image, image_roots): (Option<String>, Vec<String>),
    limits: &ResourceLimits,
) -> CreateOrder {
    let limits = ResourceLimits { disk: limits.disk.clone(), ..ResourceLimits::default() };
    let (session, env, image_tenant) = (SessionId::from_bits(0), Env::default(), tenant.clone());
    CreateOrder {
        workspace,
        session,
        limits,
        env,
        base_image,
        image_roots,
        image_digest: None,
        image_tenant,
        network: Reach::None,
        trust: None,
    }
}
