//! The long work of a session: provisioning it, removing what it held.
//!
//! One loop: ask the state what is due, commit it, perform the effect, record the outcome, until nothing is due. After a crash the same
//! loop goes on; there is no other recovery path.

use std::time::Instant;

use stead_core::command::CreateOrder;
use stead_core::config::ProviderName;
use stead_core::content::decide::ContentEffect;
use stead_core::event::{Failure, FileEffect, StepReport};
use stead_core::{Actor, Effect, Outcome, SessionId, Status, next};
use stead_providers::{ActionOrder, Done, Health, Performed, ProviderError, Workspace};

use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint::pause;
use crate::guard::{guard, guard_op};
use crate::open_session::{Intent, OpenSession};
use crate::pause::Pause;
use crate::repository::Watcher;
use crate::share::Left;
use crate::{bundle, execs, files, ops, points, repository};

/// Begins a session's due work in the background.
pub(crate) fn begin(engine: &Engine, session: SessionId) {
    spawn(engine, session, None);
}

/// The same, with the first intent recorded already.
pub(crate) fn begin_with(engine: &Engine, session: SessionId, intent: Intent) {
    spawn(engine, session, Some(intent));
}

fn spawn(engine: &Engine, session: SessionId, intent: Option<Intent>) {
    let engine = engine.clone();
    let work = engine.clone();
    engine.spawn(async move {
        if let Err(error) = run(&work, session, intent).await {
            tracing::error!(%session, error = &error as &dyn std::error::Error, "the session's work stopped");
        }
    });
}

/// Does a session's work until nothing is due. What fails is tried again, later each time: nobody else would.
async fn run(engine: &Engine, id: SessionId, intent: Option<Intent>) -> Result<(), OpError> {
    let session = OpenSession::open(engine, id).await?;
    let _turn = session.turn().await;
    let mut pause = Pause::new();
    let mut recorded = intent.filter(|intent| intent.effect.is_some());
    loop {
        let intent = match recorded.take() {
            Some(intent) => Ok(intent),
            None => {
                let due = session.state().await.session.as_ref().and_then(next);
                let Some(command) = due else { return Ok(()) };
                session.commit(command, &Actor::System).await
            }
        };
        let again = match intent {
            Ok(intent) => match guard_op(carry_out(engine, &session, intent)).await {
                Err(OpError::Panicked) => Again::Later,
                carried => carried?,
            },
            // Somebody else did it meanwhile: look again.
            Err(OpError::Rejected(_)) => Again::Now,
            // The session is taken up again elsewhere (`recover.rs`), with a cell of its own.
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
                if pause.wait(engine).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// When to look for more work.
enum Again {
    Now,
    Later,
    /// It is recorded already.
    With(Intent),
}

impl Again {
    fn after(recorded: Option<Intent>) -> Self {
        recorded.filter(|intent| intent.effect.is_some()).map_or(Self::Now, Self::With)
    }
}

/// Records what came of an effect, and with it what is due next.
async fn record(session: &OpenSession, outcome: Outcome) -> Result<Again, OpError> {
    Ok(Again::after(session.record_onward(outcome).await?))
}

/// Performs one effect and records what came of it.
async fn carry_out(engine: &Engine, session: &OpenSession, intent: Intent) -> Result<Again, OpError> {
    let at = intent.at;
    match intent.effect {
        Some(Effect::CreateWorkspace { provider, order }) => {
            let made = guard(async {
                pause("provision.create").await;
                create(engine, session, provider, &order).await
            });
            let made = made.await.unwrap_or_else(|_| Err(ProviderError::Source(bug())));
            let outcome = if made.is_ok() { "made" } else { "failed" };
            metrics::counter!("stead_provisions_total", "provider" => provider.as_str(), "outcome" => outcome)
                .increment(1);
            let outcome = match made {
                Ok(workspace) => {
                    engine.shares().enter(order.workspace, session.id());
                    hold(session, workspace)
                }
                Err(error) => Outcome::CreateFailed(error.to_failure()),
            };
            return record(session, outcome).await;
        }
        Some(Effect::ShareWorkspace { source, workspace: id }) => {
            let source = OpenSession::open(engine, source).await.ok().and_then(|source| source.workspace());
            let outcome = match source {
                Some(workspace) => {
                    engine.shares().enter(id, session.id());
                    hold(session, workspace)
                }
                None => Outcome::CreateFailed(ProviderError::Gone { workspace: id }.to_failure()),
            };
            return record(session, outcome).await;
        }
        Some(Effect::BeginWork) => {
            let began = tokio::select! {
                began = guard(begin_work(session)) => began.unwrap_or_else(|_| Outcome::CreateFailed(bug())),
                () = closing(session) => Outcome::CreateFailed(closed()),
            };
            return record(session, began).await;
        }
        Some(Effect::PerformAction { workspace, action, env }) => {
            let started = Instant::now();
            let performed = async {
                pause("provision.step").await;
                let gone = || ProviderError::Gone { workspace }.to_failure();
                let workspace = session.workspace().ok_or_else(gone)?;
                let bundle = bundle::open(engine, session.id(), &action).await?;
                let (tree, checkout) = repository::tree(engine, session, &action).await?.unzip();
                let order = ActionOrder { action, env, bundle, tree, now: at };
                let failed = |error: ProviderError| StepFailed { failure: error.to_failure(), report: error.report() };
                let mut performed = workspace.perform(order).await.map_err(failed)?;
                repository::complete(&mut performed.report, checkout);
                Ok(performed)
            };
            let performed = tokio::select! {
                performed = guard(performed) => match performed {
                    Ok(performed) => performed,
                    Err(_) => Err(bug().into()),
                },
                () = closing(session) => Err(closed().into()),
            };
            return record_step(engine, session, started, performed).await;
        }
        Some(Effect::RemoveWorkspace { provider, workspace }) => {
            pause("remove").await;
            let left = engine.shares().leave(workspace, session.id());
            if let (Left::Others, Some(shared)) = (left, session.workspace()) {
                execs::end_all(session, &*shared).await;
            }
            session.set_workspace(None);
            let removed = match engine.providers().get(provider) {
                // Another session works in it: only this one's part in it ends.
                Ok(_) if left == Left::Others => Ok(()),
                Ok(provider) => provider.remove(workspace).await,
                // What this server never had, it cannot hold.
                Err(ProviderError::Absent { .. }) => Ok(()),
                Err(error) => Err(error),
            };
            let outcome = match removed {
                Ok(()) => Outcome::Removed,
                Err(error) => Outcome::RemovalFailed { reason: error.to_failure().message },
            };
            let again = if outcome == Outcome::Removed { Again::Now } else { Again::Later };
            session.record_surely(outcome).await?;
            return Ok(again);
        }
        Some(Effect::Content(ContentEffect::Read { sync, requested })) => {
            if let Err(error) = ops::read_sync(engine, session, sync, &requested).await {
                tracing::warn!(session = %session.id(), error = &error as &dyn std::error::Error, "cannot sync yet");
                return Ok(Again::Later);
            }
        }
        Some(Effect::CallTool { .. } | Effect::OperateFiles { .. } | Effect::Exec { .. } | Effect::Content(_))
        | None => {}
    }
    Ok(Again::Now)
}

/// What is there now is what the session begins with, and can go back to.
async fn begin_work(session: &OpenSession) -> Outcome {
    // Not for one of several users of a workspace: it began when the first did.
    let spec = session.state().await.session.and_then(|session| session.spec.workspace);
    let shares = spec.is_some_and(|spec| spec.shared_with.is_some());
    let (mut done, mut warnings) = (Done::nothing(), Vec::new());
    if let Some(workspace) = session.workspace().filter(|_| !shares) {
        match workspace.begin().await {
            Ok(began) => warnings = began,
            // The place was there, the box could not be: the attempt failed as if it had never been made.
            Err(error) => return Outcome::CreateFailed(error.to_failure()),
        }
        points::keep(session, &*workspace, &mut done).await;
    }
    Outcome::Began { point: done.point, warnings }
}

/// The box that was kept ready for this session, or a new one.
async fn create(
    engine: &Engine,
    session: &OpenSession,
    name: ProviderName,
    order: &CreateOrder,
) -> Result<std::sync::Arc<dyn Workspace>, ProviderError> {
    let provider = engine.providers().get(name)?;
    if engine.pool().claim(order.workspace) == Some(name) {
        match provider.claim(order).await {
            Ok(workspace) => return Ok(workspace),
            // It died while it waited: what is left of it goes first when a new one is made under its id.
            Err(error) => {
                tracing::warn!(workspace = %order.workspace, error = %error.to_failure().message, "a box that was kept ready is of no use")
            }
        }
    }
    // Asked each time: one that was broken a moment ago may work again, and one that is broken need not be tried.
    if let Health::Unhealthy { reason } = provider.health().await {
        return Err(ProviderError::Unhealthy { provider: name, reason });
    }
    let watcher = Watcher::of(engine, session.id());
    let tell = |progress| watcher.provisioned(progress);
    tokio::select! {
        fetched = provider.fetch(order, &tell) => fetched?,
        () = closing(session) => return Err(ProviderError::Source(closed())),
    }
    provider.create(order).await
}

/// A step that failed, with what it had to tell all the same.
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
        Ok(Performed { done, report }) => match files::to_effect(engine, done).await {
            Ok((files, staged)) => (None, files, report, Some(staged)),
            Err(error) => (Some(Failure::new("files_failed", error.to_string())), nothing, report, None),
        },
        Err(StepFailed { failure, report }) => (Some(failure), nothing, report, None),
    };
    if let (Some(failure), Some(setup)) = (&failure, &report.setup) {
        let (id, number, timed_out) = (session.id(), setup.number, setup.timed_out);
        tracing::warn!(session = %id, number, timed_out, reason = %failure.message, "a setup command failed");
    }
    let kept = session.record_onward(Outcome::StepFinished { duration_ms, failure, files, report }).await?;
    if let (Some(_), Some(staged)) = (&kept, staged) {
        staged.publish();
    }
    Ok(Again::after(kept))
}

/// Takes a workspace into use.
fn hold(session: &OpenSession, workspace: std::sync::Arc<dyn Workspace>) -> Outcome {
    let (enforced_limits, made) = (workspace.enforced_limits(), workspace.made());
    session.set_workspace(Some(workspace));
    Outcome::Created { enforced_limits, made }
}

pub(crate) fn millis(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A step that panicked.
fn bug() -> Failure {
    Failure::new("internal", "the step failed because of a bug in the server; its log says where")
}

fn closed() -> Failure {
    Failure::new("closed", "the session was closed")
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
