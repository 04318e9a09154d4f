//! Closes sessions that are past their expiry or idle for too long.

use stead_core::clock_history::BootTime;
use stead_core::event::CloseReason;
use stead_core::{Actor, Command, SessionId};

use crate::effects::exec_watch;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::reconcile;

/// Larger than any expected number of live sessions. After a step of the wall clock most sessions
/// whose `due_at` has passed are not due, and they must not fill the batch.
const BATCH: u32 = 1 << 20;

pub(crate) async fn run(engine: Engine) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(engine.settings().reap_every) => {}
            () = engine.stopping().cancelled() => return,
        }
        engine.connections().sweep();
        if let Err(error) = reap(&engine).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot look for sessions past their time");
        }
    }
}

async fn reap(engine: &Engine) -> Result<(), OpError> {
    let now = engine.clock().observe();
    for row in engine.store().due_sessions(engine.clock().latest_wall(now), BATCH).await? {
        if let Err(error) = end(engine, row.id, now).await {
            tracing::error!(session = %row.id, error = &error as &dyn std::error::Error, "cannot close a session whose time is over");
        }
    }
    Ok(())
}

/// Closes one session, if its time is over.
async fn end(engine: &Engine, id: SessionId, now: BootTime) -> Result<(), OpError> {
    let session = OpenSession::open(engine, id).await?;
    if let Some((_, reason)) = session.due(now).await.filter(|(at, _)| *at <= now) {
        if reason == CloseReason::Idle && at_work(&session).await? {
            return Ok(());
        }
        tracing::info!(session = %id, %reason, "closing a session whose time is over");
        session.commit(Command::Close { reason }, &Actor::System).await?;
        reconcile::begin(engine, id);
    }
    Ok(())
}

/// Returns true if any process is running in the box. In that case it records the activity, and the
/// session is not idle.
async fn at_work(session: &OpenSession) -> Result<bool, OpError> {
    let Some(workspace) = session.workspace() else { return Ok(false) };
    match exec_watch::at_work(&*workspace).await {
        Ok(at_work) if at_work.processes > 0 => {
            let processes = at_work.processes;
            session.commit(Command::NoteActivity { processes }, &Actor::System).await?;
            Ok(true)
        }
        // There is no box, or it does not answer, so no running process is known.
        _ => Ok(false),
    }
}
