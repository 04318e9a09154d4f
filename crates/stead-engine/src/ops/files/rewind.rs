//! Rewinds a session, and lists its checkpoints.

use stead_core::rewind::{CheckpointEntry, Rewind};
use stead_core::{Actor, CallId, Command, Resource, SessionId, SnapshotId};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::history::{Deed, entries};
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::files::operate_files::{Operated, Refused, carry_out};

/// Restores the files as they were right after event `to`. The current files are kept first, so
/// that a rewind can be undone.
#[boxed]
pub async fn rewind(engine: &Engine, actor: &Actor, id: SessionId, to: u64) -> Result<Operated, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine
        .in_lane(id, async move {
            let (call, before) = (CallId::from_bits(clock::id_bits()), SnapshotId::from_bits(clock::id_bits()));
            let command = Command::Rewind { call, to, before };
            carry_out(&work, &actor, id, Refused::Rewind { to }, call, command, None).await
        })
        .await
}

/// A checkpoint, or the reason why there is none, and the operation that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointView {
    pub entry: CheckpointEntry,
    pub deed: Option<Deed>,
}

/// Returns the checkpoint policy of a session, and its checkpoints, oldest first.
#[boxed]
pub async fn checkpoints(engine: &Engine, id: SessionId) -> Result<(Rewind, Vec<CheckpointView>), OpError> {
    let state = OpenSession::open(engine, id).await?.state().await;
    let missing = || OpError::NotFound { what: Resource::Session, id: id.to_string() };
    let session = state.session.ok_or_else(missing)?;
    let kept = session.workspace_spec().map(|spec| spec.rewind).unwrap_or_default();
    let history = entries(engine, id).await?;
    let view = |entry: &CheckpointEntry| {
        let led = history.iter().find(|past| past.session == id && past.seq == entry.seq);
        CheckpointView { entry: *entry, deed: led.map(|past| past.deed.clone()) }
    };
    Ok((kept, session.checkpoints.iter().map(view).collect()))
}
