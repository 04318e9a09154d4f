//! Keep a workspace's files, and put them back.

use stead_core::event::FileOperation;
use stead_core::session::Snapshot;
use stead_core::{Actor, SessionId, SnapshotId};

use super::operate_files;
use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

pub async fn create_snapshot(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    name: Option<String>,
) -> Result<(SnapshotId, Snapshot), OpError> {
    let snapshot = SnapshotId::from_bits(clock::id_bits());
    operate_files(engine, actor, id, FileOperation::Snapshot { snapshot, name }).await?;
    let found = snapshots(engine, id).await?.into_iter().find(|(found, _)| *found == snapshot);
    found.ok_or_else(|| OpError::NotFound { what: "snapshot", id: snapshot.to_string() })
}

/// Oldest first.
pub async fn snapshots(engine: &Engine, id: SessionId) -> Result<Vec<(SnapshotId, Snapshot)>, OpError> {
    let state = OpenSession::open(engine, id).await?.state().await;
    Ok(state.session.map(|session| session.snapshots.into_iter().collect()).unwrap_or_default())
}

pub async fn restore_snapshot(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    snapshot: SnapshotId,
) -> Result<u64, OpError> {
    operate_files(engine, actor, id, FileOperation::Restore { snapshot }).await
}
