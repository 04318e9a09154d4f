//! Stages a version of content for a session, and applies staged content.

use stead_core::content::conclude::ContentOutcome;
use stead_core::content::decide::{ContentCommand, ContentEffect};
use stead_core::content::event::{SyncFailed, SyncRequested};
use stead_core::content::fault::Stage;
use stead_core::content::{ApplyMode, Refusal, SyncTarget};
use stead_core::identity::Tenant;
use stead_core::{Actor, Command, Effect, Event, Outcome, Rejection, SessionId};

use crate::content::load;
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::reconcile;

/// The content to stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncRequest {
    pub target: SyncTarget,
    pub prompt_pack: Option<String>,
    pub tool_catalog: Option<String>,
    pub known_version: Option<u64>,
}

/// Records the request, reads the content and records the outcome. Returns the sequence number of
/// the request. Later events show the outcome.
#[boxed]
pub async fn sync_content(engine: &Engine, actor: &Actor, id: SessionId, request: SyncRequest) -> Result<u64, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine.to_its_end(async move { sync(&work, &actor, id, request).await }).await
}

async fn sync(engine: &Engine, actor: &Actor, id: SessionId, request: SyncRequest) -> Result<u64, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let SyncRequest { target, prompt_pack, tool_catalog, known_version } = request;
    let workspace = target.named();
    let command = ContentCommand::Sync { target, prompt_pack, tool_catalog, known_version };
    let intent = match session.commit(Command::Content(command), actor).await {
        Err(OpError::Rejected(rejection @ Rejection::Content(Refusal::ContentNotAllowed { .. }))) => {
            let detail = rejection.to_string();
            let failed = SyncFailed { workspace, stage: Stage::Authorize, detail, actor: Some(actor.clone()) };
            session.record_refusal(Event::WorkspaceSyncFailed(failed)).await?;
            return Err(rejection.into());
        }
        decided => decided?,
    };
    let Some(Effect::Content(ContentEffect::Read { sync, requested })) = intent.effect else {
        return Err(OpError::Contended);
    };
    pause("sync.read").await;
    if let Err(error) = read(engine, &session, sync, &requested).await {
        // The intent is durable, so the reconciler continues the sync.
        tracing::warn!(session = %id, error = &error as &dyn std::error::Error, "the reconciler continues a sync");
        reconcile::begin(engine, id);
    }
    Ok(sync)
}

/// Reads the content of a sync and records the outcome.
pub(crate) async fn read(
    engine: &Engine,
    session: &OpenSession,
    sync: u64,
    requested: &SyncRequested,
) -> Result<(), OpError> {
    let state = session.state().await.session;
    let tenant = Tenant::of(state.as_ref().and_then(|session| session.spec.project.as_ref()));
    let allowed = state.map(|session| session.spec.authority.names.clone()).unwrap_or_default();
    let read = load::read(engine, &tenant, requested, &allowed).await;
    session.record(Outcome::Content(ContentOutcome::Read { sync, read })).await.map(|_| ())
}

/// Requests to apply the staged content. Returns the sequence number of the request.
#[boxed]
pub async fn apply_content(engine: &Engine, actor: &Actor, id: SessionId, mode: ApplyMode) -> Result<u64, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine
        .to_its_end(async move {
            let session = OpenSession::open(&work, id).await?;
            Ok(session.commit(Command::Content(ContentCommand::Apply { mode }), &actor).await?.first_seq)
        })
        .await
}
