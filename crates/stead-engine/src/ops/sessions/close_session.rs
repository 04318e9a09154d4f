//! Closes a session and removes its workspace.

use stead_core::event::CloseReason;
use stead_core::{Actor, Command, SessionId, State};

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::wait_settled;
use crate::reconcile;

/// Returns when the session is closed, or after a limited wait while the removal continues.
/// Idempotent.
#[boxed]
pub async fn close_session(engine: &Engine, actor: &Actor, id: SessionId) -> Result<State, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    let closing = async move {
        let session = OpenSession::open(&work, id).await?;
        session.commit(Command::Close { reason: CloseReason::Requested }, &actor).await?;
        reconcile::begin(&work, id);
        Ok(())
    };
    engine.to_its_end(closing).await?;
    wait_settled(engine, id, engine.settings().close_wait).await
}
