//! Rewinds a session, and lists its checkpoints.

use stead_core::rewind::{Moment, Rewind};
use stead_core::tool::ToolName;
use stead_core::{Actor, CallId, Command, Resource, SessionId, SnapshotId};

use super::operate_files::{Operated, carry_out};
use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::history::{Deed, entries};
use crate::open_session::OpenSession;

/// Restores the files as they were right after event `to`. The current files are kept first, so
/// that a rewind can be undone.
pub async fn rewind(engine: &Engine, actor: &Actor, id: SessionId, to: u64) -> Result<Operated, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    engine
        .in_lane(id, async move {
            let (call, before) = (CallId::from_bits(clock::id_bits()), SnapshotId::from_bits(clock::id_bits()));
            let command = Command::Rewind { call, to, before };
            carry_out(&work, &actor, id, ToolName::Write, call, command, None).await
        })
        .await
}

/// An entry of the trail, and the operation that led to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MomentView {
    pub moment: Moment,
    pub deed: Option<Deed>,
}

/// Returns the checkpoint policy of a session, and all entries of its trail, oldest first.
pub async fn moments(engine: &Engine, id: SessionId) -> Result<(Rewind, Vec<MomentView>), OpError> {
    let state = OpenSession::open(engine, id).await?.state().await;
    let missing = || OpError::NotFound { what: Resource::Session, id: id.to_string() };
    let session = state.session.ok_or_else(missing)?;
    let kept = session.workspace_spec().map(|spec| spec.rewind).unwrap_or_default();
    let entries = entries(engine, id).await?;
    let view = |moment: &Moment| {
        let led = entries.iter().find(|entry| entry.session == id && entry.seq == moment.seq);
        MomentView { moment: *moment, deed: led.map(|entry| entry.deed.clone()) }
    };
    Ok((kept, session.trail.iter().map(view).collect()))
}
