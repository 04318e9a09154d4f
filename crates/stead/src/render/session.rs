//! Renders sessions: one in full, many in rows.

use stead_api::Session;
use stead_api::session::Notice;
use stead_api::session::provisioning::{Provisioning, SetupOutput};
use stead_api::session::workspace::{Limits, Workspace};
use stead_api::usage::WorkspaceUsage;
use stead_core::capability::LimitKind;
use stead_core::session::warning::WarningCode;

use super::{bytes, cell, duration, short_timestamp, shortened, timestamp};
use crate::failure::Failure;
use crate::output::{Mark, Output, Table};

pub(crate) fn sessions(out: &Output, items: &[Session]) -> Result<(), Failure> {
    let mut table = Table::new(&["id", "status", "agent", "project", "owner", "provider", "created"]);
    for session in items {
        table.row(&[
            &cell(&session.id),
            &status(session),
            &cell(&session.agent_type),
            &cell(&session.project),
            &cell(&session.owner),
            &cell(&session.workspace.as_ref().map(|workspace| workspace.provider)),
            &short_timestamp(&session.created_at),
        ]);
    }
    out.table(&table)
}

fn status(session: &Session) -> String {
    match session.degraded {
        true => format!("{} (degraded)", session.status),
        false => session.status.to_string(),
    }
}

pub(crate) fn session(out: &Output, session: &Session) -> Result<(), Failure> {
    let mut table = Table::of_fields();
    table.row(&["session", &cell(&session.id)]);
    table.row(&["status", &status(session)]);
    table.row(&["agent type", &cell(&session.agent_type)]);
    optional(&mut table, "project", session.project.as_ref());
    table.row(&["owner", &cell(&session.owner)]);
    optional(&mut table, "task", session.task.id.as_ref());
    table.row(&["created", &timestamp(&session.created_at)]);
    table.row(&["expires", &timestamp(&session.expires_at)]);
    optional(&mut table, "closed because", session.close_reason.as_ref());
    match &session.workspace {
        Some(made) => workspace(&mut table, made),
        None => table.row(&["workspace", "none"]),
    }
    out.table(&table)?;
    if let Some(made) = &session.provisioning {
        provisioning(out, made)?;
        made.steps.iter().filter_map(|step| step.setup.as_ref()).try_for_each(|setup| setup_output(out, setup))?;
    }
    for warning in &session.warnings {
        out.marked(Mark::Warned, &notice(warning))?;
    }
    match &session.failure {
        Some(failure) => out.marked(Mark::Bad, &notice(failure)),
        None => Ok(()),
    }
}

/// A warning or failure on one line.
pub(super) fn notice(notice: &Notice) -> String {
    format!("{}: {}", notice.code, notice.message)
}

/// Code of the warning that says why a session has no workspace.
pub(crate) const UNAVAILABLE: &str = "workspace_unavailable";

/// Codes of warnings that every in-memory session has with the server's default limits. `stead
/// session show` lists them.
const USUAL: [WarningCode; 2] = [WarningCode::LimitNotEnforced, WarningCode::HistoryLeftOut];

/// Prints the warnings about a session's start on standard error. The command's failure says why it
/// has no workspace.
pub(crate) fn warn(out: &Output, session: &Session) {
    let is_shown = |warning: &&Notice| {
        warning.code != UNAVAILABLE && !warning.code.parse().is_ok_and(|code| USUAL.contains(&code))
    };
    session.warnings.iter().filter(is_shown).for_each(|warning| out.warning(&notice(warning)));
}

/// Prints the kept output of a setup command.
fn setup_output(out: &Output, setup: &SetupOutput) -> Result<(), Failure> {
    let how = if setup.timed_out { "timed out, " } else { "" };
    let (number, code, command) = (setup.number, setup.exit_code, shortened(&setup.command, 120));
    out.heading(&format!("\nSetup command {number} ({how}exit code {code}): {command}"))?;
    let streams = [
        ("stdout", &setup.stdout_head, &setup.stdout, setup.stdout_total),
        ("stderr", &setup.stderr_head, &setup.stderr, setup.stderr_total),
    ];
    for (stream, head, text, total) in streams {
        if head.trim().is_empty() && text.trim().is_empty() {
            continue;
        }
        out.line(&format!("{stream}:"))?;
        let omitted = total.saturating_sub((head.len() + text.len()) as u64);
        if omitted > 0 {
            out.line(head.trim_end())?;
            out.line(&format!("… {} omitted …", bytes(omitted)))?;
        }
        out.line(text.trim_end())?;
    }
    Ok(())
}

/// Time that each part of provisioning took.
fn provisioning(out: &Output, provisioning: &Provisioning) -> Result<(), Failure> {
    let steps = &provisioning.steps;
    if steps.is_empty() {
        return Ok(());
    }
    let cached = if provisioning.setup_cached { ", with a kept setup result" } else { "" };
    out.heading(&format!("\nProvisioning took {}{cached}", duration(provisioning.duration_ms)))?;
    let attempts = steps.iter().map(|step| step.attempt).max().unwrap_or(1);
    let mut table = Table::new(&["step", "took"]);
    for step in steps {
        let name = match attempts {
            1 => step.name.clone(),
            _ => format!("{} ({}, attempt {})", step.name, step.provider, step.attempt),
        };
        let took = match (step.duration_ms, &step.failure, &step.progress) {
            (Some(ms), None, _) => duration(ms),
            (Some(ms), Some(failure), _) => format!("{}, then {}", duration(ms), failure.code),
            (None, _, None) => "so far".to_owned(),
            (None, _, Some(progress)) => {
                format!("{} {}% {}", cell(&progress.stage), progress.percent, cell(&progress.detail))
            }
        };
        table.row(&[&name, &took]);
    }
    out.table(&table)
}

/// The disk usage of the session's workspace, if its provider reports it.
pub(crate) fn session_usage(out: &Output, usage: Option<&WorkspaceUsage>) -> Result<(), Failure> {
    let Some((own, shared)) = usage.and_then(|usage| usage.own_bytes.zip(usage.shared_bytes)) else {
        return Ok(());
    };
    let mut table = Table::of_fields();
    table.row(&["disk", &format!("{} of its own, {} shared", bytes(own), bytes(shared))]);
    out.table(&table)
}

fn workspace(table: &mut Table, workspace: &Workspace) {
    table.row(&["workspace", &format!("{} by {}", workspace.status, cell(&workspace.provider))]);
    table.row(&["policy", &format!("{} (from {})", workspace.policy.policy, workspace.policy.source)]);
    table.row(&["tools", &cell(&workspace.tools)]);
    table.row(&["limits", &limits(&workspace.limits)]);
    optional(table, "commit", workspace.base.commit.as_ref());
    optional(table, "digest", workspace.base.digest.as_ref());
    optional(table, "repository url", workspace.metadata.repository_url.as_ref());
    optional(table, "branch", workspace.metadata.branch.as_ref());
    optional(table, "pull request number", workspace.metadata.pull_request_number.as_ref());
    optional(table, "base branch", workspace.metadata.base_branch.as_ref());
}

/// The limits that are set, each marked if the provider does not enforce it.
pub(super) fn limits(limits: &Limits) -> String {
    let set = [
        (LimitKind::Cpu, limits.cpu.clone()),
        (LimitKind::Memory, limits.memory.clone()),
        (LimitKind::Disk, limits.disk.clone()),
        (LimitKind::Pids, limits.pids.map(|pids| pids.to_string())),
    ];
    let one = |(kind, value): (LimitKind, Option<String>)| {
        let held = if limits.enforced.contains(&kind) { "" } else { " (not enforced)" };
        value.map(|value| format!("{kind} {value}{held}"))
    };
    let shown: Vec<String> = set.into_iter().filter_map(one).collect();
    if shown.is_empty() { "none".to_owned() } else { shown.join(", ") }
}

fn optional(table: &mut Table, name: &str, value: Option<&impl serde::Serialize>) {
    if let Some(value) = value {
        table.row(&[name, &cell(value)]);
    }
}
