//! Commands that run in boxes: each is watched until its end is in the journal, also when the server was away meanwhile.
//!
//! A box outlives the server, and its commands with it. So an exec without an outcome is never presumed dead: the box is asked. Only what the
//! box does not know, or what a box that is gone took with it, is recorded as interrupted, with the reason.

use stead_core::command::ExecOutcome;
use stead_core::event::Failure;
use stead_core::{ExecId, Outcome, Status};
use stead_providers::{ExecEnd, ExecError, Workspace};

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::points;

/// Looks after a command in the background until its end is recorded.
pub(crate) fn watch(engine: &Engine, session: &OpenSession, exec: ExecId) {
    let (work, session) = (engine.clone(), session.clone());
    engine.spawn(async move {
        if let Err(error) = settle(&work, &session, exec, None).await {
            tracing::error!(session = %session.id(), %exec, error = &error as &dyn std::error::Error, "an exec's end is not recorded");
        }
    });
}

/// Waits for a command's end, unless it is known, and records it.
///
/// `Ok` without a record if the server stops or the session closes first: then the next start, or the removal, tells of the end.
pub(crate) async fn settle(
    engine: &Engine,
    session: &OpenSession,
    exec: ExecId,
    mut known: Option<Result<ExecEnd, ExecError>>,
) -> Result<(), OpError> {
    loop {
        let Some(workspace) = session.workspace() else { return Ok(()) };
        let ended = match known.take() {
            Some(known) => known,
            None => tokio::select! {
                ended = wait(&*workspace, exec) => ended,
                () = engine.stopping().cancelled() => return Ok(()),
            },
        };
        let outcome = match ended {
            Ok(ExecEnd { exit, output }) => {
                let files = Box::new(points::keep_after_exec(session, &*workspace).await);
                ExecOutcome::Finished { exit, output, files }
            }
            Err(ExecError::Refused { code, message }) => ExecOutcome::Failed(Failure::new(code, message)),
            Err(ExecError::Lost { reason }) => {
                if session.status().await != Status::Active {
                    return Ok(());
                }
                // The connection may be lost and the box not.
                if at_work(&*workspace).await.is_ok() {
                    continue;
                }
                ExecOutcome::Interrupted { reason: format!("its box ended: {reason}") }
            }
            Err(error) => ExecOutcome::Interrupted { reason: error.to_string() },
        };
        session.record_surely(Outcome::ExecEnded { exec, outcome }).await?;
        return Ok(());
    }
}

async fn wait(workspace: &dyn Workspace, exec: ExecId) -> Result<ExecEnd, ExecError> {
    workspace.execs().ok_or(ExecError::Unsupported)?.wait(exec).await
}

pub(crate) async fn at_work(workspace: &dyn Workspace) -> Result<stead_providers::AtWork, ExecError> {
    workspace.execs().ok_or(ExecError::Unsupported)?.at_work().await
}

/// After a start: what still runs is watched again, what does not is told of.
pub(crate) async fn take_up(engine: &Engine, session: &OpenSession) -> Result<(), OpError> {
    let state = session.state().await;
    let open: Vec<ExecId> = state.session.iter().flat_map(|session| session.execs.running()).collect();
    let (false, Some(workspace)) = (open.is_empty(), session.workspace()) else { return Ok(()) };
    let known = at_work(&*workspace).await;
    let anew = workspace.execs().is_some_and(|execs| execs.started_anew());
    for exec in open {
        let is_known = known.as_ref().is_ok_and(|at_work| at_work.execs.iter().any(|known| known.exec == exec));
        if is_known {
            watch(engine, session, exec);
            continue;
        }
        let reason = match &known {
            Err(error) => format!("its box ended: {error}"),
            Ok(_) if anew => "its box ended while the server was away".to_owned(),
            Ok(_) => "the server stopped before the command was started".to_owned(),
        };
        let outcome = ExecOutcome::Interrupted { reason };
        session.record(Outcome::ExecEnded { exec, outcome }).await?;
    }
    Ok(())
}

/// Ends the commands of a session that leaves a workspace others stay in.
pub(crate) async fn end_all(session: &OpenSession, workspace: &dyn Workspace) {
    let state = session.state().await;
    for exec in state.session.iter().flat_map(|session| session.execs.running()) {
        if let Some(execs) = workspace.execs() {
            // What it cannot end now goes with the box.
            let _ = execs.kill(exec).await;
        }
    }
}
