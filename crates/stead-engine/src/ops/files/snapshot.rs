//! Takes and restores snapshots of a workspace's files.

use std::collections::BTreeMap;

use stead_core::event::FileOperation;
use stead_core::session::Snapshot;
use stead_core::{Actor, Resource, SessionId, SnapshotId};

use crate::claim::Claims;
use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::Idempotency;
use crate::ops::boxed;
use crate::ops::files::operate_files::{Operated, operate_claimed, operate_files};

#[boxed]
pub async fn create_snapshot(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    name: Option<String>,
    idempotency: Option<Idempotency>,
) -> Result<(SnapshotId, Snapshot), OpError> {
    let claims = Claims::new("snapshots", id, actor, idempotency);
    let snapshot = keep(engine, actor, id, name, &claims).await?;
    let found = snapshots(engine, id).await?.into_iter().find(|(found, _)| *found == snapshot);
    found.ok_or_else(|| OpError::NotFound { what: Resource::Snapshot, id: snapshot.to_string() })
}

/// All snapshots, oldest first.
#[boxed]
pub async fn snapshots(engine: &Engine, id: SessionId) -> Result<Vec<(SnapshotId, Snapshot)>, OpError> {
    let state = OpenSession::open(engine, id).await?.state().await;
    Ok(state.session.map(|session| BTreeMap::clone(&session.snapshots).into_iter().collect()).unwrap_or_default())
}

#[boxed]
pub async fn restore_snapshot(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    snapshot: SnapshotId,
) -> Result<Operated, OpError> {
    let operated = operate_files(engine, actor, id, FileOperation::Restore { snapshot }).await?;
    // The restored tree equals the snapshot.
    let kept = snapshots(engine, id).await?.into_iter().find(|(found, _)| *found == snapshot);
    let tree_hash = operated.tree_hash.or(kept.and_then(|(_, kept)| kept.tree_hash));
    Ok(Operated { tree_hash, ..operated })
}

/// Takes a snapshot, once per claim. If the server stopped before a claimed snapshot was taken,
/// takes it now.
pub(in crate::ops) async fn keep(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    name: Option<String>,
    claims: &Claims,
) -> Result<SnapshotId, OpError> {
    let claimed: Option<SnapshotId> = claims.made_before(engine, "snapshot").await?.and_then(|id| id.parse().ok());
    let (snapshot, claim) = match claimed {
        Some(snapshot) if snapshots(engine, id).await?.iter().any(|(kept, _)| *kept == snapshot) => {
            return Ok(snapshot);
        }
        Some(snapshot) => (snapshot, None),
        None => {
            let snapshot = SnapshotId::from_bits(clock::id_bits());
            (snapshot, claims.on("snapshot", snapshot))
        }
    };
    operate_claimed(engine, actor, id, FileOperation::Snapshot { snapshot, name }, claim).await?;
    Ok(snapshot)
}
