//! Recovery at a start, after a clean stop or a crash.
//!
//! Every live session records the restart, which interrupts its open calls. Its workspace is
//! adopted or declared lost. Then its work continues. Workspaces of a provider that no session
//! lists are removed.

use std::collections::HashSet;

use stead_core::capability::FileStorage;
use stead_core::command::CreateOrder;
use stead_core::event::Failure;
use stead_core::identity::Tenant;
use stead_core::session::{Session, WorkspaceStatus};
use stead_core::{Outcome, Resource, SessionId, WorkspaceId};
use stead_providers::{AdoptOrder, ProviderError};

use crate::backoff::Backoff;
use crate::effects::checkpoints;
use crate::effects::exec_watch;
use crate::effects::inspection;
use crate::effects::network;
use crate::effects::secret_env;
use crate::effects::snapshot_hashes;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::history::history;
use crate::journal::search_terms;
use crate::open_session::OpenSession;
use crate::reconcile;

pub(crate) async fn recover(engine: &Engine) -> Result<(), OpError> {
    for provider in engine.providers().iter() {
        for what in provider.unclaimed() {
            tracing::warn!(provider = %provider.name(), what, "left alone: it belongs to the home this one was copied from");
        }
    }
    search_terms::complete(engine).await?;
    let rows = engine.store().live_sessions().await?;
    let mut listed = HashSet::new();
    let mut taken_up = Vec::new();
    let mut unreadable = 0;
    for row in &rows {
        // First enter all users of shared workspaces, so that no removal misses one.
        enter_share(engine, row.id).await?;
    }
    for row in rows {
        match recover_session(engine, row.id).await {
            Ok(workspace) => {
                listed.extend(workspace);
                taken_up.push(row.id);
            }
            Err(error @ OpError::Store(_)) => return Err(error),
            // One unreadable journal must not block the other sessions.
            Err(error) => {
                tracing::error!(session = %row.id, error = &error as &dyn std::error::Error, "cannot take up the session");
                unreadable += 1;
            }
        }
    }
    // An unreadable session may still need any of its checkpoints.
    if unreadable == 0 {
        checkpoints::forget_unnamed(engine, &taken_up).await?;
    }
    for session in taken_up {
        reconcile::begin(engine, session);
    }
    // An unreadable session may still have a workspace, so the list of needed workspaces is
    // incomplete.
    if unreadable == 0 {
        remove_unlisted(engine, &listed).await;
    }
    Ok(())
}

/// Recovers one session while the engine runs. Its cell was dropped because something else wrote to
/// the journal.
pub(crate) fn take_up_again(engine: &Engine, id: SessionId) {
    let work = engine.clone();
    engine.spawn(async move {
        let mut backoff = Backoff::new();
        loop {
            match recover_session(&work, id).await {
                Ok(_) => return reconcile::begin(&work, id),
                Err(error @ (OpError::Store(_) | OpError::Contended)) => {
                    tracing::warn!(session = %id, error = &error as &dyn std::error::Error, "cannot take up the session yet");
                    if backoff.wait(&work).await.is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::error!(session = %id, error = &error as &dyn std::error::Error, "cannot take up the session");
                    return;
                }
            }
        }
    });
}

/// Registers a session as user of its workspace. Skips a session with an unreadable journal.
async fn enter_share(engine: &Engine, id: SessionId) -> Result<(), OpError> {
    let state = match OpenSession::open(engine, id).await {
        Ok(session) => session.state().await,
        Err(OpError::Corrupt { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let holds = |session: &&Session| session.workspace.as_ref().is_some_and(|workspace| workspace.holds_something());
    if let Some(spec) = state.session.as_deref().filter(holds).and_then(|session| session.workspace_spec()) {
        engine.workspace_users().enter(spec.id, id);
    }
    Ok(())
}

/// Recovers one session. Returns the workspace it may still hold.
async fn recover_session(engine: &Engine, id: SessionId) -> Result<Option<WorkspaceId>, OpError> {
    let session = OpenSession::open(engine, id).await?;
    session.record(Outcome::Restarted).await?;
    network::note_uncounted(&session).await;
    let state = session.state().await;
    let Some(recovered) = &state.session else { return Ok(None) };
    let ready = recovered.workspace.as_ref().is_some_and(|workspace| workspace.status == WorkspaceStatus::Ready);
    if ready {
        let outcome = match adopt_box(engine, &session).await? {
            Ok(()) => Outcome::Adopted,
            Err(failure) => Outcome::Lost { reason: failure.message },
        };
        session.record(outcome).await?;
        exec_watch::take_up(engine, &session).await?;
        snapshot_hashes::begin(engine, &session).await;
    }
    Ok(recovered.workspace_spec().map(|spec| spec.id))
}

/// Attaches the existing workspace to its session. Its box is found, or starts over its files.
pub(crate) async fn adopt_box(engine: &Engine, session: &OpenSession) -> Result<Result<(), Failure>, OpError> {
    let state = session.state().await;
    let Some(recovered) = &state.session else {
        return Err(OpError::NotFound { what: Resource::Session, id: session.id().to_string() });
    };
    let adopted = match shared(engine, recovered).await {
        Some(workspace) => Ok(workspace),
        None => adopt(engine, recovered).await,
    };
    match adopted {
        Ok(workspace) => {
            session.set_workspace(Some(workspace));
            Ok(Ok(()))
        }
        Err(Failed::Provider(error)) => Ok(Err(error.to_failure())),
        Err(Failed::Op(error @ OpError::Store(_))) => Err(error),
        // Blobs that the journal names are damaged or missing, so this session is lost.
        Err(Failed::Op(error)) => Ok(Err(Failure::new("rebuild_failed", error.to_string()))),
    }
}

/// Returns the workspace if a session that shares it has already been recovered.
async fn shared(engine: &Engine, session: &Session) -> Option<std::sync::Arc<dyn stead_providers::Workspace>> {
    let workspace = session.workspace_spec()?.id;
    for user in engine.workspace_users().users(workspace) {
        let found = OpenSession::open(engine, user).await.ok().and_then(|session| session.workspace());
        if found.is_some() {
            return found;
        }
    }
    None
}

enum Failed {
    Provider(ProviderError),
    Op(OpError),
}

async fn adopt(engine: &Engine, session: &Session) -> Result<std::sync::Arc<dyn stead_providers::Workspace>, Failed> {
    let provider = session.workspace.as_ref().and_then(|workspace| workspace.provider);
    let (Some(provider), Some(spec)) = (provider, session.workspace_spec()) else {
        return Err(Failed::Op(OpError::NotFound { what: Resource::Workspace, id: session.id.to_string() }));
    };
    let provider = engine.providers().get(provider).map_err(Failed::Provider)?;
    let history = match provider.capabilities().files {
        FileStorage::Journal => history(engine, session.id).await.map_err(Failed::Op)?,
        FileStorage::Host => Vec::new(),
    };
    let create = CreateOrder {
        workspace: spec.id,
        session: session.id,
        limits: spec.limits.clone(),
        env: secret_env::with_placeholders(engine, session.id, spec.plan.env.clone()),
        base_image: spec.base_image.clone(),
        image_roots: spec.image_roots.clone(),
        image_digest: spec.image_digest.clone(),
        image_tenant: Tenant::of(session.spec.project.as_ref()),
        network: spec.box_network(),
        // A box that runs has its files, and inspected connections are refused while the key cannot
        // be read.
        trust: inspection::trust(engine, session).await.unwrap_or_else(|error| {
            tracing::warn!(session = %session.id, error = &error as &dyn std::error::Error, "cannot inspect connections");
            None
        }),
    };
    provider.adopt(&AdoptOrder { create, history }).await.map_err(Failed::Provider)
}

/// Removes workspaces that a crash left behind and that no session lists.
async fn remove_unlisted(engine: &Engine, listed: &HashSet<WorkspaceId>) {
    for provider in engine.providers().iter() {
        let held = match provider.list().await {
            Ok(held) => held,
            Err(error) => {
                tracing::warn!(provider = %provider.name(), error = &error as &dyn std::error::Error, "cannot list workspaces");
                continue;
            }
        };
        for workspace in held.into_iter().filter(|workspace| !listed.contains(workspace)) {
            tracing::warn!(provider = %provider.name(), %workspace, "removing a workspace no session lists");
            if let Err(error) = provider.remove(workspace).await {
                tracing::error!(%workspace, error = &error as &dyn std::error::Error, "cannot remove it");
            }
        }
    }
}
