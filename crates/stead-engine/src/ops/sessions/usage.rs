//! Disk usage of the server.

use stead_core::config::ProviderName;
use stead_core::{SessionId, WorkspaceId};
use stead_git::MirrorUse;
use stead_providers::{SetupEntry, Usage as LayerUsage, WorkspaceUsage};

use crate::background::collect;
use crate::effects::repository;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::{boxed, setup_results};

/// Disk usage by owner. Data that workspaces share is counted once.
#[derive(Debug, Clone)]
pub struct Usage {
    pub workspaces: Vec<SessionUsage>,
    pub layers: LayerUsage,
    /// Kept setup results, of which those in use are held.
    pub setups: LayerUsage,
    pub mirrors: Vec<MirrorUse>,
    pub blobs: u64,
    pub blob_bytes: u64,
}

/// The disk usage of a session's workspace, if its provider can measure it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionUsage {
    pub session: SessionId,
    pub workspace: WorkspaceId,
    pub provider: ProviderName,
    pub disk: Option<WorkspaceUsage>,
}

#[boxed]
pub async fn usage(engine: &Engine) -> Result<Usage, OpError> {
    let mut workspaces = Vec::new();
    for row in engine.store().live_sessions().await? {
        match session_usage(engine, row.id).await {
            Ok(usage) => workspaces.extend(usage),
            // A session that cannot be read must not hide the others.
            Err(OpError::Corrupt { .. } | OpError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let layers = engine.providers().layer_usage().await;
    let held = collect::held(engine).await?;
    let mirrors = match repository::mirrors(engine) {
        Ok(mirrors) => {
            let mirrors = mirrors.clone();
            let looked = tokio::task::spawn_blocking(move || mirrors.usage(&held).unwrap_or_default());
            looked.await.unwrap_or_default()
        }
        Err(_) => Vec::new(),
    };
    let blobs = engine.store().blobs().list().await?;
    let blob_bytes = blobs.iter().map(|blob| blob.len).sum();
    let mut setups = LayerUsage::default();
    for SetupEntry { bytes, users, .. } in setup_results(engine).await?.into_iter().map(|kept| kept.entry) {
        setups.layers += 1;
        setups.bytes += bytes;
        setups.held_layers += u64::from(users > 0);
        setups.held_bytes += if users > 0 { bytes } else { 0 };
    }
    Ok(Usage { workspaces, layers, setups, mirrors, blobs: blobs.len() as u64, blob_bytes })
}

/// Returns the disk usage of a session's workspace. `None` if it has none.
#[boxed]
pub async fn session_usage(engine: &Engine, id: SessionId) -> Result<Option<SessionUsage>, OpError> {
    let state = OpenSession::open(engine, id).await?.state().await;
    let Some(session) = &state.session else { return Ok(None) };
    let held = session.workspace.as_ref().filter(|workspace| workspace.holds_something());
    let (Some(provider), Some(spec)) = (held.and_then(|held| held.provider), session.workspace_spec()) else {
        return Ok(None);
    };
    let disk = match engine.providers().get(provider).ok().and_then(|provider| provider.disk_usage()) {
        // A workspace that is being removed has no size any more.
        Some(usage) => usage.workspace_usage(spec.id).await.unwrap_or_default(),
        None => None,
    };
    Ok(Some(SessionUsage { session: id, workspace: spec.id, provider, disk }))
}
