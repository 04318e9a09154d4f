//! The end of provisioning, and its warnings.
//!
//! These warnings describe the workspace that the session uses. They are raised only when it is
//! ready, so that a failed and replaced provider leaves no warning behind.

use crate::box_facts::Allowances;
use crate::config::ProviderName;
use crate::event::{Event, Failure};
use crate::rewind::Checkpoint;
use crate::session::warning::{Warning, WarningCode};
use crate::session::{Session, Status, Workspace};
use crate::spec::WorkspaceSpec;

/// Activates the session, unless it was closed meanwhile.
pub(super) fn ready(
    session: &Session,
    workspace: &Workspace,
    spec: &WorkspaceSpec,
    checkpoint: Option<Checkpoint>,
    warnings: &[Failure],
) -> Vec<Event> {
    let (Status::Provisioning, Some(provider)) = (session.status, workspace.provider) else { return Vec::new() };
    let mut events: Vec<Event> = fell_back(workspace, provider).into_iter().collect();
    events.extend(not_enforced(workspace, spec, provider));
    events.extend(shared_allowances(workspace));
    events.extend(omitted_files(workspace, spec));
    events.extend(warnings.iter().map(recorded));
    events.push(Event::WorkspaceReady { attempt: workspace.attempt, provider, point: checkpoint });
    events.push(Event::SessionActivated { degraded: false });
    events
}

fn fell_back(workspace: &Workspace, provider: ProviderName) -> Option<Event> {
    let failed = workspace.failures.iter();
    let reasons: Vec<String> =
        failed.map(|attempt| format!("'{}' failed: {}", attempt.provider, attempt.failure.message)).collect();
    let message = || format!("provider '{provider}' made the workspace, because provider {}", reasons.join("; "));
    (!reasons.is_empty()).then(|| WarningCode::ProviderFallback.raised(message()))
}

fn not_enforced(workspace: &Workspace, spec: &WorkspaceSpec, provider: ProviderName) -> Option<Event> {
    spec.not_enforced(provider, &workspace.enforced_limits).map(Warning::raised)
}

fn shared_allowances(workspace: &Workspace) -> Option<Event> {
    let reason = workspace.made.allowances.and_then(Allowances::warning)?;
    Some(WarningCode::LimitNotEnforced.raised(reason.to_owned()))
}

/// Warnings about files that the checkout omits. A clone gets none, because its source had them.
fn omitted_files<'a>(workspace: &'a Workspace, spec: &WorkspaceSpec) -> impl Iterator<Item = Event> + use<'a> {
    let own = spec.brought.is_none();
    let checkout = workspace.report.checkout.iter().filter(move |_| own);
    checkout.flat_map(|checkout| &checkout.warnings).map(recorded)
}

/// Raises a warning of a report. A clone may bring one of an earlier version.
fn recorded(warning: &Failure) -> Event {
    Event::WarningRaised { code: warning.code.clone(), message: warning.message.clone() }
}
