//! The long work of a session: provisioning it, removing what it held.
//!
//! One loop: ask the state what is due, commit it, perform the effect, record the outcome, until nothing is due. After a crash the same
//! loop goes on; there is no other recovery path.

use std::time::{Duration, Instant};

use stead_core::{Actor, Effect, Outcome, SessionId, Status, next};
use stead_providers::{Done, ProviderError};

use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::files;
use crate::open_session::{Intent, OpenSession};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Begins a session's due work in the background.
pub(crate) fn begin(engine: &Engine, session: SessionId) {
    let engine = engine.clone();
    let work = engine.clone();
    engine.spawn(async move {
        if let Err(error) = run(&work, session).await {
            tracing::error!(%session, error = &error as &dyn std::error::Error, "the session's work stopped");
        }
    });
}

/// Does a session's work until nothing is due.
async fn run(engine: &Engine, id: SessionId) -> Result<(), OpError> {
    let session = OpenSession::open(engine, id).await?;
    let _turn = session.turn().await;
    let mut removal_pause = FIRST_PAUSE;
    loop {
        let due = session.state().await.session.as_ref().and_then(next);
        let Some(command) = due else { return Ok(()) };
        let intent = match session.commit(command, &Actor::System).await {
            Ok(intent) => intent,
            // Somebody else did it meanwhile: look again.
            Err(OpError::Rejected(_)) => continue,
            Err(error) => return Err(error),
        };
        let removal_failed = carry_out(engine, &session, intent).await?;
        if removal_failed {
            tokio::select! {
                () = tokio::time::sleep(removal_pause) => {}
                () = engine.stopping().cancelled() => return Ok(()),
            }
            removal_pause = (removal_pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Performs one effect and records what came of it. True if a removal failed and is to be tried again.
async fn carry_out(engine: &Engine, session: &OpenSession, intent: Intent) -> Result<bool, OpError> {
    let at = intent.at;
    match intent.effect {
        Some(Effect::CreateWorkspace { provider, order }) => {
            pause("provision.create").await;
            let made = match engine.providers().get(provider) {
                Ok(provider) => provider.create(&order).await,
                Err(error) => Err(error),
            };
            let outcome = match made {
                Ok(workspace) => {
                    let enforced_limits = workspace.enforced_limits();
                    session.set_workspace(Some(workspace));
                    Outcome::Created { enforced_limits }
                }
                Err(error) => Outcome::CreateFailed(error.to_failure()),
            };
            session.record(outcome).await?;
        }
        Some(Effect::PerformAction { workspace, action, env }) => {
            let started = Instant::now();
            let performed = async {
                pause("provision.step").await;
                let workspace = session.workspace().ok_or(ProviderError::Gone { workspace })?;
                workspace.perform(&action, &env, at).await
            };
            let performed = tokio::select! {
                performed = performed => performed.map_err(|error| error.to_failure()),
                () = closing(session) => Err(stead_core::event::Failure::new("closed", "the session was closed")),
            };
            record_step(engine, session, started, performed).await?;
        }
        Some(Effect::RemoveWorkspace { provider, workspace }) => {
            pause("remove").await;
            session.set_workspace(None);
            let removed = match engine.providers().get(provider) {
                Ok(provider) => provider.remove(workspace).await,
                // What this server never had, it cannot hold.
                Err(ProviderError::Absent { .. }) => Ok(()),
                Err(error) => Err(error),
            };
            let outcome = match removed {
                Ok(()) => Outcome::Removed,
                Err(error) => Outcome::RemovalFailed { reason: error.to_failure().message },
            };
            let failed = outcome != Outcome::Removed;
            session.record(outcome).await?;
            return Ok(failed);
        }
        Some(Effect::CallTool { .. }) | None => {}
    }
    Ok(false)
}

async fn record_step(
    engine: &Engine,
    session: &OpenSession,
    started: Instant,
    performed: Result<Done, stead_core::event::Failure>,
) -> Result<(), OpError> {
    let duration_ms = millis(started);
    match performed {
        Ok(Done { changes, tree_hash, staged }) => {
            let changes = files::to_journal(engine, changes).await?;
            session.record(Outcome::StepFinished { duration_ms, failure: None, changes, tree_hash }).await?;
            staged.publish();
        }
        Err(failure) => {
            let (failure, changes) = (Some(failure), Vec::new());
            session.record(Outcome::StepFinished { duration_ms, failure, changes, tree_hash: None }).await?;
        }
    }
    Ok(())
}

pub(crate) fn millis(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Returns when the session is being closed: a step nobody waits for any more is given up.
async fn closing(session: &OpenSession) {
    let mut watch = session.watch();
    loop {
        let status = session.state().await.session.map(|session| session.status);
        if status != Some(Status::Provisioning) || watch.changed().await.is_err() {
            return;
        }
    }
}
