//! Performs the effects of a session's life cycle: creates, prepares and removes its workspace, and
//! reads its content. Operations perform tool calls, file operations and execs themselves.

use std::time::Instant;

use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::content::decide::ContentEffect;
use stead_core::content::event::SyncRequested;
use stead_core::env::Env;
use stead_core::event::{Failure, FileEffect, StepReport};
use stead_core::network::Window;
use stead_core::plan::Action;
use stead_core::setup_cache::TASK_VARIABLES;
use stead_core::{Effect, Outcome, SessionId, Status, Timestamp, WorkspaceId};
use stead_providers::{ActionOrder, Done, Health, OutputSink, Performed, ProviderError, Workspace};

use crate::effects::guard::guard;
use crate::effects::inspection;
use crate::effects::network;
use crate::effects::repository::Watcher;
use crate::effects::secret_env;
use crate::effects::setup_output::Recorder;
use crate::effects::workspace_users::Remaining;
use crate::effects::{bundle, checkpoints, exec_watch, file_changes, pause, repository, setup_cache};
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint;
use crate::open_session::{Intent, OpenSession};
use crate::ops;

/// When the reconciler looks for more work.
pub(crate) enum Again {
    Now,
    Later,
    /// The next intent is already recorded.
    With(Intent),
}

impl Again {
    fn after(recorded: Option<Intent>) -> Self {
        recorded.filter(|intent| intent.effect.is_some()).map_or(Self::Now, Self::With)
    }
}

/// Records the outcome of an effect, together with the next due intent.
async fn record(session: &OpenSession, outcome: Outcome) -> Result<Again, OpError> {
    Ok(Again::after(session.record_with_next(outcome).await?))
}

/// Performs one effect and records its outcome.
pub(crate) async fn perform(engine: &Engine, session: &OpenSession, intent: Intent) -> Result<Again, OpError> {
    match intent.effect {
        Some(Effect::CreateWorkspace { provider, order }) => {
            let env = secret_env::with_placeholders(engine, session.id(), order.env.clone());
            let trust = match session.state().await.session {
                Some(state) => inspection::trust(engine, &state).await,
                None => Ok(None),
            };
            match trust {
                Ok(trust) => create_workspace(engine, session, provider, &CreateOrder { env, trust, ..*order }).await,
                Err(error) => {
                    let id = session.id();
                    tracing::error!(session = %id, error = &error as &dyn std::error::Error, "cannot inspect connections");
                    record(session, Outcome::CreateFailed(inspection::unavailable())).await
                }
            }
        }
        Some(Effect::ShareWorkspace { source, workspace }) => share_workspace(engine, session, source, workspace).await,
        Some(Effect::BeginWork) => {
            let began = tokio::select! {
                began = guard(begin_work(session)) => began.unwrap_or_else(|_| Outcome::CreateFailed(bug())),
                () = closing(session) => Outcome::CreateFailed(closed()),
            };
            record(session, began).await
        }
        Some(Effect::PerformAction { workspace, action, env }) => {
            let env = secret_env::with_placeholders(engine, session.id(), env);
            let step = InitStep { workspace, action, env, now: intent.at };
            perform_action(engine, session, step).await
        }
        Some(Effect::PauseBox { provider, workspace, mode }) => {
            pause::pause_box(engine, session, (provider, workspace), mode).await
        }
        Some(Effect::ResumeBox { provider, mode }) => pause::resume_box(engine, session, provider, mode).await,
        Some(Effect::RemoveWorkspace { provider, workspace }) => {
            remove_workspace(engine, session, provider, workspace).await
        }
        Some(Effect::Content(ContentEffect::Read { sync, requested })) => {
            Ok(read_content(engine, session, sync, &requested).await)
        }
        Some(Effect::CallTool { .. } | Effect::OperateFiles { .. } | Effect::Exec { .. } | Effect::Content(_))
        | None => Ok(Again::Now),
    }
}

async fn create_workspace(
    engine: &Engine,
    session: &OpenSession,
    provider: ProviderName,
    order: &CreateOrder,
) -> Result<Again, OpError> {
    let made = guard(async {
        failpoint::pause("provision.create").await;
        create(engine, session, provider, order).await
    });
    let made = made.await.unwrap_or_else(|_| Err(ProviderError::Source(bug())));
    let outcome = if made.is_ok() { "made" } else { "failed" };
    metrics::counter!("stead_provisions_total", "provider" => provider.as_str(), "outcome" => outcome).increment(1);
    let outcome = match made {
        Ok(workspace) => {
            engine.workspace_users().enter(order.workspace, session.id());
            hold(session, workspace)
        }
        Err(error) => Outcome::CreateFailed(error.to_failure()),
    };
    record(session, outcome).await
}

/// Uses the workspace of another session.
async fn share_workspace(
    engine: &Engine,
    session: &OpenSession,
    source: SessionId,
    workspace: WorkspaceId,
) -> Result<Again, OpError> {
    let source = OpenSession::open(engine, source).await.ok().and_then(|source| source.workspace());
    let outcome = match source {
        Some(shared) => {
            engine.workspace_users().enter(workspace, session.id());
            hold(session, shared)
        }
        None => Outcome::CreateFailed(ProviderError::Gone { workspace }.to_failure()),
    };
    record(session, outcome).await
}

/// An init action that is due.
struct InitStep {
    workspace: WorkspaceId,
    action: Action,
    env: Env,
    now: Timestamp,
}

/// Performs an init action, unless the session is closed first.
async fn perform_action(engine: &Engine, session: &OpenSession, step: InitStep) -> Result<Again, OpError> {
    let started = Instant::now();
    let performed = tokio::select! {
        performed = guard(perform_step(engine, session, step)) => match performed {
            Ok(performed) => performed,
            Err(_) => Err(bug().into()),
        },
        () = closing(session) => Err(closed().into()),
    };
    record_step(engine, session, started, performed).await
}

async fn perform_step(engine: &Engine, session: &OpenSession, step: InitStep) -> Result<Performed, StepFailed> {
    failpoint::pause("provision.step").await;
    let InitStep { workspace, action, mut env, now } = step;
    let gone = || ProviderError::Gone { workspace }.to_failure();
    let workspace = session.workspace().ok_or_else(gone)?;
    let current = session.state().await.session.ok_or_else(gone)?;
    if let Some(performed) = setup_cache::perform(engine, &current, &*workspace, &action, now).await {
        return performed.map_err(StepFailed::from);
    }
    if action.is_setup() && current.workspace.as_ref().is_some_and(|workspace| workspace.setup_cache.is_some()) {
        // The result may serve other tasks.
        TASK_VARIABLES.iter().for_each(|name| env.set(name, ""));
    }
    let bundle = bundle::open(engine, session.id(), &action).await?;
    let (layer, checkout) = repository::layer(engine, session, &workspace, &action).await?.unzip();
    let (output, recorder) = match action.is_setup() {
        true => {
            let (output, recorder) = Recorder::start(engine, session.id());
            (output, Some(recorder))
        }
        false => (OutputSink::default(), None),
    };
    let order = ActionOrder { action, env, bundle, layer, output, now };
    let failed = |error: ProviderError| StepFailed { failure: error.to_failure(), report: error.report() };
    let performed = workspace.perform(order).await.map_err(failed);
    if let Some(recorder) = recorder {
        recorder.finish().await;
    }
    let mut performed = performed?;
    performed.report.checkout = checkout;
    Ok(performed)
}

/// Removes a workspace, or only this session's use of it while other sessions use it.
async fn remove_workspace(
    engine: &Engine,
    session: &OpenSession,
    provider: ProviderName,
    workspace: WorkspaceId,
) -> Result<Again, OpError> {
    failpoint::pause("remove").await;
    let remaining = engine.workspace_users().leave(workspace, session.id());
    if let (Remaining::Others, Some(shared)) = (remaining, session.workspace()) {
        exec_watch::end_all(session, &*shared).await;
    }
    network::tally(session, Window::Closed).await;
    session.set_workspace(None);
    let removed = match engine.providers().get(provider) {
        // Another session still uses the workspace, so it stays.
        Ok(_) if remaining == Remaining::Others => Ok(()),
        Ok(provider) => provider.remove(workspace).await,
        // A server without this provider has nothing to remove.
        Err(ProviderError::Absent { .. }) => Ok(()),
        Err(error) => Err(error),
    };
    if removed.is_ok() && remaining != Remaining::Others {
        forget_inspection(engine, session, workspace).await?;
    }
    let (outcome, again) = match removed {
        Ok(()) => (Outcome::Removed, Again::Now),
        Err(error) => (Outcome::RemovalFailed { reason: error.to_failure().message }, Again::Later),
    };
    session.record_surely(outcome).await?;
    Ok(again)
}

async fn forget_inspection(engine: &Engine, session: &OpenSession, workspace: WorkspaceId) -> Result<(), OpError> {
    match session.state().await.session {
        Some(state) if inspection::inspected(&state).is_some() => inspection::forget(engine, workspace).await,
        _ => Ok(()),
    }
}

/// Reads the content of an open sync. `ops::read_sync` records the outcome.
async fn read_content(engine: &Engine, session: &OpenSession, sync: u64, requested: &SyncRequested) -> Again {
    match ops::read_sync(engine, session, sync, requested).await {
        Ok(()) => Again::Now,
        Err(error) => {
            tracing::warn!(session = %session.id(), error = &error as &dyn std::error::Error, "cannot sync yet");
            Again::Later
        }
    }
}

/// Ends provisioning. The current files become the session's initial files and its first
/// checkpoint.
async fn begin_work(session: &OpenSession) -> Outcome {
    // Not for a session that shares a workspace, which already runs.
    let state = session.state().await;
    let spec = state.session.as_ref().and_then(|session| session.workspace_spec());
    let is_shared = spec.is_some_and(|spec| spec.shared_with.is_some());
    network::end_setup(session).await;
    let (mut done, mut warnings) = (Done::nothing(), Vec::new());
    if let Some(workspace) = session.workspace().filter(|_| !is_shared) {
        match workspace.begin().await {
            Ok(began) => warnings = began,
            // The workspace existed but its box could not start, so the whole attempt failed.
            Err(error) => return Outcome::CreateFailed(error.to_failure()),
        }
        checkpoints::keep(session, &*workspace, &mut done).await;
    }
    Outcome::Began { checkpoint: done.point, warnings }
}

/// Claims the warm box that was taken for this session, or creates a new one.
async fn create(
    engine: &Engine,
    session: &OpenSession,
    name: ProviderName,
    order: &CreateOrder,
) -> Result<std::sync::Arc<dyn Workspace>, ProviderError> {
    let provider = engine.providers().get(name)?;
    if engine.pool().claim(order.workspace) == Some(name)
        && let Some(warm) = provider.warm_boxes()
    {
        match warm.claim(order).await {
            Ok(workspace) => return Ok(workspace),
            // The warm box died. Creating a new one under the same id removes its remains first.
            Err(error) => {
                tracing::warn!(workspace = %order.workspace, error = %error.to_failure().message, "a box that was kept ready is of no use")
            }
        }
    }
    // Checked each time: a broken provider may work again, and a broken one need not be tried.
    if let Health::Unhealthy { reason } = provider.health().await {
        return Err(ProviderError::Unhealthy { provider: name, reason });
    }
    if let Some(images) = provider.image_cache() {
        let watcher = Watcher::of(engine, session.id());
        let tell = |progress| watcher.provisioned(progress);
        tokio::select! {
            fetched = images.fetch(order, &tell) => fetched?,
            () = closing(session) => return Err(ProviderError::Source(closed())),
        }
    }
    provider.create(order).await
}

/// A failed init action, with the report it produced nevertheless.
struct StepFailed {
    failure: Failure,
    report: StepReport,
}

impl From<Failure> for StepFailed {
    fn from(failure: Failure) -> Self {
        Self { failure, report: StepReport::default() }
    }
}

async fn record_step(
    engine: &Engine,
    session: &OpenSession,
    started: Instant,
    performed: Result<Performed, StepFailed>,
) -> Result<Again, OpError> {
    let duration_ms = millis(started);
    let nothing = FileEffect::default();
    let (failure, files, report, staged) = match performed {
        Ok(Performed { done, report }) => match file_changes::to_effect(engine, done).await {
            Ok((files, staged)) => (None, files, report, Some(staged)),
            Err(error) => (Some(Failure::new("files_failed", error.to_string())), nothing, report, None),
        },
        Err(StepFailed { failure, report }) => (Some(failure), nothing, report, None),
    };
    if let (Some(failure), Some(setup)) = (&failure, &report.setup) {
        let (id, number, timed_out) = (session.id(), setup.number, setup.timed_out);
        tracing::warn!(session = %id, number, timed_out, reason = %failure.message, "a setup command failed");
    }
    let kept = session.record_with_next(Outcome::StepFinished { duration_ms, failure, files, report }).await?;
    if let (Some(_), Some(staged)) = (&kept, staged) {
        staged.publish();
    }
    Ok(Again::after(kept))
}

/// Attaches a workspace to the session.
fn hold(session: &OpenSession, workspace: std::sync::Arc<dyn Workspace>) -> Outcome {
    let (enforced_limits, made) = (workspace.enforced_limits(), workspace.made());
    session.set_workspace(Some(workspace));
    Outcome::Created { enforced_limits, made }
}

pub(crate) fn millis(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The failure of an init action that panicked.
fn bug() -> Failure {
    Failure::new("internal", "the step failed because of a bug in the server; its log says where")
}

fn closed() -> Failure {
    Failure::new("closed", "the session was closed")
}

/// Returns when the session is being closed. Its init action is then abandoned.
async fn closing(session: &OpenSession) {
    let mut watch = session.watch();
    loop {
        let status = session.state().await.session.map(|session| session.status);
        if status != Some(Status::Provisioning) || watch.changed().await.is_err() {
            return;
        }
    }
}
