//! Mirrors nobody works on, looked for now and then.
//!
//! A mirror is held by every live session of its repository. Layers look after themselves (`stead-providers`), blobs are collected by
//! `stead gc` while no server runs.

use stead_core::repository::RepositoryUrl;

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

pub(crate) async fn run(engine: Engine) {
    loop {
        if let Err(error) = collect(&engine).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for mirrors nobody needs");
        }
        tokio::select! {
            () = tokio::time::sleep(engine.settings().collect_every) => {}
            () = engine.stopping().cancelled() => return,
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
                tracing::info!(url = %mirror.url, bytes = mirror.bytes, "removed a mirror nobody needs");
            }
        }
        Ok(Err(error)) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot remove mirrors nobody needs")
        }
        Err(_) => {}
    }
    Ok(())
}

/// The repositories of every live session. One that cannot be read is no reason to keep everything: a mirror that goes is fetched again.
pub(crate) async fn held(engine: &Engine) -> Result<Vec<RepositoryUrl>, OpError> {
    let mut held = Vec::new();
    for row in engine.store().live_sessions().await? {
        let Ok(session) = OpenSession::open(engine, row.id).await else { continue };
        let state = session.state().await;
        let spec = state.session.as_ref().and_then(|session| session.workspace_spec()?.repository.as_ref());
        held.extend(spec.map(|spec| spec.url.clone()));
    }
    Ok(held)
}
