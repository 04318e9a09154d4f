//! Periodically removes mirrors that no live session uses and blobs that nothing names.
//!
//! Every live session holds the mirror of its repository. The layer store collects its own layers
//! (`stead-providers`).

use std::time::{Duration, SystemTime};

use stead_core::identity::Tenant;
use stead_git::HeldRepository;

use crate::engine::Engine;
use crate::error::OpError;
use crate::limits::storage;
use crate::open_session::OpenSession;

pub(crate) async fn run(engine: Engine) {
    loop {
        if let Err(error) = collect(&engine).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for unused mirrors");
        }
        tokio::select! {
            () = tokio::time::sleep(engine.settings().collect_every) => {}
            () = engine.stopping().cancelled() => return,
        }
    }
}

/// Removes blobs that nothing has named for the grace period, and counts the setup results that
/// their providers still have.
pub(crate) async fn run_blobs(engine: Engine) {
    let grace = engine.settings().blob_grace;
    let every = (grace / 4).clamp(Duration::from_secs(1), engine.settings().collect_every);
    loop {
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = engine.stopping().cancelled() => return,
        }
        if let Err(error) = storage::count_setup_results(&engine).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot count the setup results");
        }
        let Some(before) = SystemTime::now().checked_sub(grace) else { continue };
        match engine.store().collect_blobs(before).await {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => {
                let bytes: u64 = removed.iter().map(|blob| blob.len).sum();
                tracing::info!(blobs = removed.len(), bytes, "removed blobs that nothing names");
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot remove blobs that nothing names");
            }
        }
    }
}

async fn collect(engine: &Engine) -> Result<(), OpError> {
    let Some(mirrors) = engine.settings().mirrors.clone() else { return Ok(()) };
    let (held, retention) = (held(engine).await?, engine.settings().mirror_retention);
    let collected = tokio::task::spawn_blocking(move || mirrors.collect(retention, &held)).await;
    match collected {
        Ok(Ok(collected)) => {
            for mirror in collected {
                tracing::info!(url = %mirror.url, bytes = mirror.bytes, "removed an unused mirror");
            }
        }
        Ok(Err(error)) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot remove unused mirrors")
        }
        Err(_) => {}
    }
    Ok(())
}

/// The repositories of all live sessions. An unreadable session does not block the collection,
/// because a removed mirror can be fetched again.
pub(crate) async fn held(engine: &Engine) -> Result<Vec<HeldRepository>, OpError> {
    let mut held = Vec::new();
    for row in engine.store().live_sessions().await? {
        let Ok(session) = OpenSession::open(engine, row.id).await else { continue };
        let state = session.state().await;
        let Some(session) = &state.session else { continue };
        let repository = session.workspace_spec().and_then(|workspace| workspace.repository.as_ref());
        let tenant = Tenant::of(session.spec.project.as_ref());
        held.extend(repository.map(|repository| HeldRepository { tenant, url: repository.url.clone() }));
    }
    Ok(held)
}
