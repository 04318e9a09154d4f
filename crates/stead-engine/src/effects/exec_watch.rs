//! Watches commands in boxes until their ends are in the journal, also across restarts of the
//! server.
//!
//! A box and its commands outlive the server. An exec without an outcome is therefore not assumed
//! dead: the engine asks the box. Only an exec that the box does not know, or whose box is gone, is
//! recorded as interrupted, with the reason.

use stead_core::command::ExecOutcome;
use stead_core::event::Failure;
use stead_core::{ExecId, Outcome, Status};
use stead_providers::{ExecEnd, ExecError, Workspace};

use crate::effects::checkpoints;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

/// Watches a command in the background until its end is recorded.
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
/// Returns `Ok` without a record if the server stops or the session closes first. The next start or
/// the removal then records the end.
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
                let files = Box::new(checkpoints::keep_after_exec(session, &*workspace).await);
                ExecOutcome::Finished { exit, output, files }
            }
            Err(ExecError::Refused { code, message }) => ExecOutcome::Failed(Failure::new(code.as_str(), message)),
            Err(ExecError::Lost { reason }) => {
                if session.status().await != Status::Active {
                    return Ok(());
                }
                // The connection may be lost while the box still runs.
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

/// After a start, watches the commands that still run, and records the end of the others.
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

/// Ends the commands and the persistent shell of a session that leaves a workspace which other
/// sessions still use.
pub(crate) async fn end_all(session: &OpenSession, workspace: &dyn Workspace) {
    let state = session.state().await;
    for exec in state.session.iter().flat_map(|session| session.execs.running()) {
        if let Some(execs) = workspace.execs() {
            // A command that cannot be ended now ends with the box.
            let _ = execs.kill(exec).await;
        }
    }
    workspace.end_shell(session.id()).await;
}
