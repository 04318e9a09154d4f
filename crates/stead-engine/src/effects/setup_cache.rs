//! Performs `restore_setup` and `keep_setup`: begins with a kept setup result, or keeps one.
//!
//! A cache never fails a session. What cannot be used or kept is a warning, and the setup commands
//! run.

use stead_core::config::ProviderName;
use stead_core::event::{Failure, StepReport};
use stead_core::plan::Action;
use stead_core::setup_cache::{self, SetupCacheOutcome, SetupCacheReport, SetupKey};
use stead_core::spec::WorkspaceSpec;
use stead_core::{Session, Timestamp};
use stead_providers::{Done, KeepSetupOrder, Performed, SETUP_PREFIX, SetupAbout, SetupKept, SetupPosition, Workspace};
use stead_store::StorageKind;

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::failpoint;
use crate::limits::storage;
use crate::ops::setup_results;

/// Performs the action. `None` if it has nothing to do with kept setup results.
pub(crate) async fn perform(
    engine: &Engine,
    session: &Session,
    workspace: &dyn Workspace,
    action: &Action,
    now: Timestamp,
) -> Option<Result<Performed, Failure>> {
    let report = match action {
        Action::RestoreSetup { files } => restore(session, workspace, files).await,
        Action::KeepSetup => match keep(engine, session, workspace, now).await {
            Ok(report) => report,
            Err(failure) => return Some(Err(failure)),
        },
        _ => return None,
    };
    metrics::counter!("stead_setup_cache_total", "outcome" => report.outcome.as_str()).increment(1);
    let report = StepReport { setup_cache: Some(Box::new(report)), ..StepReport::default() };
    Some(Ok(Performed { done: Done::nothing(), report }))
}

fn report(outcome: SetupCacheOutcome) -> SetupCacheReport {
    SetupCacheReport { outcome, key: None, entry: None, reason: None }
}

fn place(files: &[String]) -> SetupPosition {
    if files.is_empty() { SetupPosition::Above } else { SetupPosition::Below }
}

async fn restore(session: &Session, workspace: &dyn Workspace, files: &[String]) -> SetupCacheReport {
    let unsupported =
        |reason: String| SetupCacheReport { reason: Some(reason), ..report(SetupCacheOutcome::Unsupported) };
    let Some(results) = workspace.setup_results() else {
        let provider = provider(session).map_or_else(String::new, |provider| format!(" '{provider}'"));
        return unsupported(format!("workspaces of the provider{provider} on this host have no layers"));
    };
    let inputs = match results.inputs(files.to_vec()).await {
        Ok(inputs) => inputs,
        Err(error) => return unsupported(error.to_failure().message),
    };
    let Some(key) = provider(session).and_then(|provider| setup_cache::key(session, provider, &inputs)) else {
        return unsupported("the session has no workspace".to_owned());
    };
    match results.restore(key.clone(), place(files)).await {
        Ok(Some(entry)) => SetupCacheReport { key: Some(key), entry: Some(entry), ..report(SetupCacheOutcome::Hit) },
        Ok(None) => SetupCacheReport { key: Some(key), ..report(SetupCacheOutcome::Miss) },
        Err(error) => unsupported(error.to_failure().message),
    }
}

/// Keeps the result under the key that `restore_setup` found nothing for.
async fn keep(
    engine: &Engine,
    session: &Session,
    workspace: &dyn Workspace,
    now: Timestamp,
) -> Result<SetupCacheReport, Failure> {
    let nothing = || Ok(report(SetupCacheOutcome::Miss));
    let (Some(results), Some(key), Some(spec)) =
        (workspace.setup_results(), missed_key(session), session.workspace_spec())
    else {
        return nothing();
    };
    let entry = format!("{SETUP_PREFIX}{:032x}", clock::id_bits());
    let about = about(session, spec, now);
    let place = place(&files(spec));
    failpoint::pause("setup.keep").await;
    let _changing = engine.storage().lock().await;
    let order = KeepSetupOrder { entry: entry.clone(), key: key.clone(), place, about };
    match results.keep(order).await.map_err(|error| error.to_failure())? {
        SetupKept::Kept => match count(engine, session, &entry).await {
            Ok(()) => Ok(SetupCacheReport { key: Some(key), entry: Some(entry), ..report(SetupCacheOutcome::Kept) }),
            Err(refused) => {
                forget(engine, session, entry).await;
                let reason = Some(refused.to_string());
                Ok(SetupCacheReport { key: Some(key), reason, ..report(SetupCacheOutcome::NotKept) })
            }
        },
        // Another session kept the same result first.
        SetupKept::Known => Ok(SetupCacheReport { key: Some(key), ..report(SetupCacheOutcome::Kept) }),
        SetupKept::Refused { reason } => {
            Ok(SetupCacheReport { key: Some(key), reason: Some(reason), ..report(SetupCacheOutcome::NotKept) })
        }
    }
}

/// Counts a kept result for the disk quota of the session's project.
async fn count(engine: &Engine, session: &Session, entry: &str) -> Result<(), OpError> {
    let Some(project) = &session.spec.project else { return Ok(()) };
    let kept = setup_results(engine).await?.into_iter().find(|kept| kept.entry.id == entry);
    // The collector removed it first.
    let Some(kept) = kept else { return Ok(()) };
    storage::add(engine, StorageKind::SetupResult, project, entry.to_owned(), kept.entry.bytes).await
}

/// Removes a result that the quota refuses. The workspace keeps its files.
async fn forget(engine: &Engine, session: &Session, entry: String) {
    let found = provider(session).and_then(|provider| engine.providers().get(provider).ok());
    let Some(disk) = found.as_ref().and_then(|provider| provider.disk_usage()) else { return };
    if let Err(error) = disk.remove_setup(entry).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "cannot remove a setup result beyond the quota");
    }
}

fn provider(session: &Session) -> Option<ProviderName> {
    session.workspace.as_ref()?.provider
}

fn missed_key(session: &Session) -> Option<SetupKey> {
    let found = session.workspace.as_ref()?.setup_cache.as_ref()?;
    found.key.clone().filter(|_| found.outcome == SetupCacheOutcome::Miss)
}

fn files(spec: &WorkspaceSpec) -> Vec<String> {
    let named = |action: &Action| match action {
        Action::RestoreSetup { files } => Some(files.clone()),
        _ => None,
    };
    spec.plan.actions.iter().find_map(named).unwrap_or_default()
}

fn about(session: &Session, spec: &WorkspaceSpec, now: Timestamp) -> SetupAbout {
    let commands = spec.plan.actions.iter().filter_map(|action| match action {
        Action::RunSetupCommand { command, .. } => Some(command.clone()),
        _ => None,
    });
    let report = session.workspace.as_ref().map(|workspace| workspace.report.clone());
    SetupAbout {
        project: session.spec.project.clone(),
        agent_type: session.spec.agent_type.clone(),
        commit: report.and_then(|report| report.checkout.as_ref().map(|checkout| checkout.commit.clone())),
        commands: commands.collect(),
        created_at: now,
    }
}
