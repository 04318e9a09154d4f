//! Creates a session: resolves the request, records it and starts provisioning.

use stead_core::command::InitialContent;
use stead_core::content::SyncTarget;
use stead_core::content::conclude::{ReadContent, select};
use stead_core::request::SessionRequest;
use stead_core::spec::SessionSpec;
use stead_core::{Actor, Command, Resource, SessionId, State};
use stead_store::{Admission, CommitError, Hash, IdempotencyClaim, IdempotencyKey, IdempotencyRow};

use crate::background::pool;
use crate::content::load;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::audit;
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
    let agent_type = request.agent_type.to_string();
    let (spec, _) = match resolve(engine, request).await {
        Err(OpError::Rejected(rejection)) => {
            let entry =
                audit::refused_start(actor, &agent_type, rejection.code(), &rejection.to_string(), clock::now());
            engine.store().record_audit(vec![entry]).await?;
            return Err(rejection.into());
        }
        planned => planned?,
    };
    let content = initial_content(engine, &spec).await?;
    let mut spec = spec;
    if let Some(workspace) = &mut spec.workspace {
        pool::take(engine, &agent_type, workspace).await;
    }
    let taken = spec.workspace.as_ref().map(|workspace| workspace.id);
    let id = SessionId::from_bits(clock::id_bits());
    let session = OpenSession::unborn(engine, id);
    let birth = Birth {
        admission: taken.map(|_| Admission { max_live: engine.settings().max_sessions }),
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
        Err(error) => return Err(error.into()),
    };
    reconcile::begin_with(engine, id, due);
    Ok(session.state().await)
}

/// Reads the session's initial content before anything is created. If that fails, no session is
/// created.
async fn initial_content(engine: &Engine, spec: &SessionSpec) -> Result<Option<Box<InitialContent>>, OpError> {
    let Some(binding) = &spec.content else { return Ok(None) };
    let target = SyncTarget { workspace: Some(binding.workspace.clone()), version: binding.version, root_hash: None };
    let version = content_version(engine, &binding.workspace, binding.version).await?;
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
