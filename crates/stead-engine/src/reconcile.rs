//! The reconciler: provisions sessions and removes their workspaces.
//!
//! It is one loop: ask the state for the due command, commit it, perform the effect
//! (`effects/perform.rs`), and record the outcome, until nothing is due. After a crash the same
//! loop continues. There is no other recovery path.

use stead_core::{Actor, SessionId, next};

use crate::backoff::Backoff;
use crate::effects::guard::guard_op;
use crate::effects::perform::{Again, perform};
use crate::engine::Engine;
use crate::error::OpError;
use crate::limits::creations::Turn;
use crate::open_session::{Intent, OpenSession};

/// Starts a session's due work in the background.
pub(crate) fn begin(engine: &Engine, session: SessionId) {
    spawn(engine, session, None, None);
}

/// The same, with the first intent already recorded. The work holds the turn until it ends.
pub(crate) fn begin_with(engine: &Engine, session: SessionId, intent: Intent, turn: Option<Turn>) {
    spawn(engine, session, Some(intent), turn);
}

fn spawn(engine: &Engine, session: SessionId, intent: Option<Intent>, turn: Option<Turn>) {
    let engine = engine.clone();
    let work = engine.clone();
    engine.spawn(async move {
        if let Err(error) = run(&work, session, intent).await {
            tracing::error!(%session, error = &error as &dyn std::error::Error, "the session's work stopped");
        }
        drop(turn);
    });
}

/// Works until nothing is due. Retries failures with growing delays, because no other task would.
async fn run(engine: &Engine, id: SessionId, intent: Option<Intent>) -> Result<(), OpError> {
    let session = OpenSession::open(engine, id).await?;
    let _work = session.work_lock().await;
    let mut backoff = Backoff::new();
    let mut recorded = intent.filter(|intent| intent.effect.is_some());
    loop {
        let intent = match recorded.take() {
            Some(intent) => Ok(intent),
            None => {
                let due = session.state().await.session.as_deref().and_then(next);
                let Some(command) = due else { return Ok(()) };
                session.commit(command, &Actor::System).await
            }
        };
        let again = match intent {
            Ok(intent) => match guard_op(perform(engine, &session, intent)).await {
                Err(OpError::Panicked) => Again::Later,
                performed => performed?,
            },
            // Another task did it meanwhile: look again.
            Err(OpError::Rejected(_)) => Again::Now,
            // `recover.rs` opens the session again with a new cell.
            Err(OpError::Contended) if session.is_stale() => return Ok(()),
            Err(error @ (OpError::Store(_) | OpError::Contended)) => {
                tracing::warn!(session = %id, error = &error as &dyn std::error::Error, "cannot go on yet");
                Again::Later
            }
            Err(error) => return Err(error),
        };
        match again {
            Again::Now => {}
            Again::With(intent) => recorded = Some(intent),
            Again::Later => {
                if backoff.wait(engine).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}
