//! Stops, freezes and resumes the box of a session.
//!
//! Both effects are idempotent. After a crash the reconciler repeats them.

use stead_core::config::ProviderName;
use stead_core::event::Failure;
use stead_core::network::Window;
use stead_core::pause::PauseMode;
use stead_core::{Outcome, WorkspaceId};
use stead_providers::ProviderError;

use crate::effects::exec_watch;
use crate::effects::network;
use crate::effects::perform::Again;
use crate::effects::snapshot_hashes;
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::open_session::OpenSession;
use crate::recover;

/// The reason why the box of a workspace with several sessions is not paused.
pub(crate) const SHARED: &str = "other sessions use the same workspace, and a pause would stop their commands too";

pub(crate) async fn pause_box(
    engine: &Engine,
    session: &OpenSession,
    (provider, workspace): (ProviderName, WorkspaceId),
    mode: PauseMode,
) -> Result<Again, OpError> {
    pause("pause").await;
    session.hide_workspace();
    let paused = match engine.workspace_users().users(workspace).len() {
        0 | 1 => match engine.providers().get(provider) {
            Ok(provider) => provider.pause(workspace, mode).await.map_err(|error| error.to_failure()),
            Err(error) => Err(error.to_failure()),
        },
        _ => Err(Failure::new("workspace_shared", SHARED)),
    };
    let outcome = match paused {
        Ok(()) => {
            if mode == PauseMode::Stop {
                network::tally(session, Window::Closed).await;
                session.forget_hidden();
            }
            Outcome::Paused
        }
        Err(failure) => {
            thaw_again(engine, provider, workspace, mode).await;
            match session.show_workspace() {
                true => Outcome::PauseFailed(failure),
                false => match recover::adopt_box(engine, session).await? {
                    Ok(()) => Outcome::PauseFailed(failure),
                    Err(error) if is_gone(&error) => Outcome::Lost { reason: error.message },
                    // The files are there, such as when Podman does not answer.
                    Err(_) => return Ok(Again::Later),
                },
            }
        }
    };
    let failed = matches!(outcome, Outcome::PauseFailed(_));
    session.record_surely(outcome).await?;
    if failed {
        // The box may have ended, and the watchers of its commands with it.
        exec_watch::take_up(engine, session).await?;
    }
    Ok(Again::Now)
}

/// A freeze that failed may have frozen the box nevertheless. The session is active, so it must
/// run.
async fn thaw_again(engine: &Engine, provider: ProviderName, workspace: WorkspaceId, mode: PauseMode) {
    let PauseMode::Freeze = mode else { return };
    let Ok(provider) = engine.providers().get(provider) else { return };
    if let Err(error) = provider.thaw(workspace).await {
        tracing::warn!(%workspace, error = %error.to_failure().message, "cannot thaw a box after a failed freeze");
    }
}

fn is_gone(failure: &Failure) -> bool {
    matches!(failure.code.as_str(), "workspace_gone" | "rebuild_failed")
}

pub(crate) async fn resume_box(
    engine: &Engine,
    session: &OpenSession,
    provider: ProviderName,
    mode: PauseMode,
) -> Result<Again, OpError> {
    pause("resume").await;
    let outcome = match make_ready(engine, session, provider, mode).await? {
        Ok(()) => Outcome::Resumed,
        Err(Failed { failure, files: Files::Kept }) => Outcome::ResumeFailed(failure),
        Err(Failed { failure, files: Files::Gone }) => Outcome::Lost { reason: failure.message },
    };
    let resumed = outcome == Outcome::Resumed;
    session.record_surely(outcome).await?;
    if resumed {
        exec_watch::take_up(engine, session).await?;
        snapshot_hashes::begin(engine, session).await;
    }
    Ok(Again::Now)
}

/// A resume that failed.
struct Failed {
    failure: Failure,
    files: Files,
}

/// Says if another attempt can succeed.
enum Files {
    Kept,
    Gone,
}

async fn make_ready(
    engine: &Engine,
    session: &OpenSession,
    provider: ProviderName,
    mode: PauseMode,
) -> Result<Result<(), Failed>, OpError> {
    let kept = |error: ProviderError| Failed { failure: error.to_failure(), files: Files::Kept };
    let spec = session.state().await.session.as_ref().and_then(|session| session.workspace_spec().map(|spec| spec.id));
    if let (PauseMode::Freeze, Some(workspace)) = (mode, spec) {
        let thawed = match engine.providers().get(provider) {
            Ok(provider) => provider.thaw(workspace).await,
            Err(error) => Err(error),
        };
        if let Err(error) = thawed {
            return Ok(Err(kept(error)));
        }
    }
    if session.show_workspace() || session.workspace().is_some() {
        return Ok(Ok(()));
    }
    let gone = |failure: Failure| {
        let files = if is_gone(&failure) { Files::Gone } else { Files::Kept };
        Failed { failure, files }
    };
    Ok(recover::adopt_box(engine, session).await?.map_err(gone))
}
