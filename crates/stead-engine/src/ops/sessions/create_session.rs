//! Creates a session: resolves the request, records it and starts provisioning.

use stead_core::admission::Scope;
use stead_core::command::InitialContent;
use stead_core::config::ProviderName;
use stead_core::content::SyncTarget;
use stead_core::content::conclude::{ReadContent, select};
use stead_core::identity::Tenant;
use stead_core::request::SessionRequest;
use stead_core::spec::SessionSpec;
use stead_core::{Actor, Command, Resource, SessionId, State};
use stead_store::{Admission, CommitError, Hash, IdempotencyClaim, IdempotencyKey, IdempotencyRow};

use crate::background::pool;
use crate::content::load;
use crate::effects::network;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
use crate::limits::quotas;
use crate::open_session::{AppendError, Birth, OpenSession};
use crate::ops::boxed;
use crate::ops::content_version;
use crate::ops::sessions::plan_session::resolve;
use crate::{clock, reconcile};

/// An idempotency key: a repeated request with it does not create a second session.
#[derive(Debug, Clone)]
pub struct Idempotency {
    pub key: String,
    /// Hash of the canonical body. A different body with the same key is refused.
    pub body_hash: [u8; 32],
}

/// Returns as soon as the session is recorded. Its workspace is created in the background.
#[boxed]
pub async fn create_session(
    engine: &Engine,
    actor: &Actor,
    request: SessionRequest,
    idempotency: Option<Idempotency>,
) -> Result<State, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.to_its_end(async move { create(&work, &actor, request, idempotency).await }).await
}

async fn create(
    engine: &Engine,
    actor: &Actor,
    request: SessionRequest,
    idempotency: Option<Idempotency>,
) -> Result<State, OpError> {
    let claim = idempotency.map(|given| IdempotencyClaim {
        key: IdempotencyKey { scope: format!("sessions/{actor}"), key: given.key },
        body_hash: Hash::from_bytes(given.body_hash),
        target: String::new(),
    });
    if let Some(claim) = &claim
        && let Some(row) = engine.store().idempotent(&claim.key).await?
    {
        return made_before(engine, claim, row).await;
    }
    let place = engine.creations().enter(request.project.as_ref()).await?;
    let agent_type = request.agent_type.to_string();
    let tenant = Tenant::of(request.project.as_ref());
    let (spec, admission, pool_key) = match admissible(engine, actor, request).await {
        Err(OpError::Rejected(rejection)) => {
            let entry = audit::refused_start(actor, &tenant, &agent_type, &rejection, clock::now());
            engine.store().record_audit(vec![entry]).await?;
            return Err(rejection.into());
        }
        planned => planned?,
    };
    let content = initial_content(engine, &tenant, &spec).await?;
    let mut spec = spec;
    if let Some(workspace) = &mut spec.workspace {
        pool::take(engine, &pool_key, &tenant, workspace).await;
    }
    let taken = spec.workspace.as_ref().map(|workspace| workspace.id);
    let at_once = made_at_once(&spec);
    let id = SessionId::from_bits(clock::id_bits());
    let session = OpenSession::unborn(engine, id);
    let birth = Birth {
        admission,
        idempotency: claim.clone().map(|claim| IdempotencyClaim { target: id.to_string(), ..claim }),
    };
    let create = Command::Create { session: id, spec: Box::new(spec), content };
    let born = session.commit_birth(create, actor, birth).await;
    if born.is_err() {
        pool::drop_taken(engine, taken).await;
    }
    let due = match born {
        Ok(due) => due,
        Err(AppendError::Commit(CommitError::IdempotencyReplay(row) | CommitError::IdempotencyMismatch(row))) => {
            let claim = claim.ok_or(OpError::Contended)?;
            return made_before(engine, &claim, row).await;
        }
        Err(error) => return Err(refusal(engine, error)),
    };
    reconcile::begin_with(engine, id, due, at_once.then_some(place));
    Ok(session.state().await)
}

/// Resolves a request and finds the limits that its session must fit into. Returns the key of the
/// agent type too.
async fn admissible(
    engine: &Engine,
    actor: &Actor,
    request: SessionRequest,
) -> Result<(SessionSpec, Admission, String), OpError> {
    let (spec, _, agent_type) = resolve(engine, request).await?;
    network::check_inspectable(&spec)?;
    let admission = quotas::admission(engine, actor, &spec, 1).await?;
    Ok((spec, admission, agent_type))
}

/// Returns true if making the workspace is only work of this process. It is then part of the
/// creation's turn. Other workspaces wait for boxes and remote repositories, which must not hold up
/// other projects.
fn made_at_once(spec: &SessionSpec) -> bool {
    spec.workspace.as_ref().is_some_and(|workspace| {
        workspace.plan.actions.is_empty() && workspace.providers.iter().all(|name| *name == ProviderName::Memory)
    })
}

/// Returns the error for a session that was not created. The memory of the host is named with the
/// settings that limit it.
pub(super) fn refusal(engine: &Engine, error: AppendError) -> OpError {
    match (error, &engine.settings().box_memory) {
        (AppendError::Commit(CommitError::Quota(exceeded)), Some(memory)) if exceeded.scope == Scope::Host => {
            OpError::HostMemory {
                used: exceeded.used,
                requested: exceeded.requested,
                allowed: exceeded.allowed,
                host_bytes: memory.host_bytes,
                overcommit: memory.overcommit,
            }
        }
        (error, _) => error.into(),
    }
}

/// Reads the session's initial content before anything is created. If that fails, no session is
/// created.
async fn initial_content(
    engine: &Engine,
    tenant: &Tenant,
    spec: &SessionSpec,
) -> Result<Option<Box<InitialContent>>, OpError> {
    let Some(binding) = &spec.content else { return Ok(None) };
    let target = SyncTarget { workspace: Some(binding.workspace.clone()), version: binding.version, root_hash: None };
    let version = content_version(engine, tenant, &binding.workspace, binding.version).await?;
    let ReadContent::Snapshot { mut snapshot, warnings } = load::snapshot(engine, &version).await? else {
        return Ok(None);
    };
    select(&mut snapshot, None, None, Some(binding))?;
    Ok(Some(Box::new(InitialContent { target, snapshot, warnings })))
}

/// Handles a used key. The same request gets the existing session, and a different one is refused.
async fn made_before(engine: &Engine, claim: &IdempotencyClaim, row: IdempotencyRow) -> Result<State, OpError> {
    if row.body_hash != claim.body_hash {
        return Err(OpError::IdempotencyMismatch { key: claim.key.key.clone() });
    }
    let gone = || OpError::NotFound { what: Resource::Session, id: row.target.clone() };
    let id: SessionId = row.target.parse().map_err(|_| gone())?;
    reconcile::begin(engine, id);
    Ok(OpenSession::open(engine, id).await?.state().await)
}
