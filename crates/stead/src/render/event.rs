//! Renders events, one line each.

use stead_api::Event;
use stead_core::Actor;
use stead_core::Event as Known;
use stead_core::event::{Failure as Reason, FileOperation};

use super::{cell, shortened};
use crate::failure::Failure;
use crate::output::{Output, Table};

const WIDTH: usize = 160;

pub(crate) fn events(out: &Output, items: &[Event]) -> Result<(), Failure> {
    out.table(&event_table(items))
}

pub(crate) fn event_table(items: &[Event]) -> Table {
    let mut table = Table::new(&["seq", "time", "event", "what"]);
    for event in items {
        table.row(&[&event.seq.to_string(), &clock(event), &event.kind, &what(event)]);
    }
    table
}

/// An event on one line, in the columns of a table.
pub(crate) fn event_row(event: &Event) -> String {
    let (seq, kind) = (event.seq, &event.kind);
    format!("{seq:>5}  {}  {kind:<20}  {}", clock(event), what(event)).trim_end().to_owned()
}

/// The time of day with milliseconds, because events are close together.
fn clock(event: &Event) -> String {
    let text = event.at.to_string();
    let time = text.split_once('T').map(|(_, time)| time.trim_end_matches('Z').to_owned());
    time.unwrap_or(text)
}

/// A short description of an event.
fn what(event: &Event) -> String {
    let text = event.known().and_then(known).unwrap_or_else(|| rest(event));
    shortened(&text, WIDTH)
}

/// Returns `None` for an event without a description of its own.
fn known(event: Known) -> Option<String> {
    Some(match event {
        Known::SessionCreated { spec, actor, .. } => format!("agent type {}, by {}", spec.agent_type, name(&actor)),
        Known::ProvisionStarted { provider, attempt } => format!("{provider}, attempt {attempt}"),
        Known::WorkspaceReady { provider, .. } | Known::RemovalStarted { provider } => provider.to_string(),
        Known::InitStepStarted { step, action, .. } => format!("step {step}: {action}"),
        Known::InitStepFinished { step, duration_ms, failure: None, .. } => format!("step {step} in {duration_ms} ms"),
        Known::InitStepFinished { step, failure: Some(failure), .. } => {
            format!("step {step} failed: {}", failure.message)
        }
        Known::ProvisionFailed { provider, failure, .. } => format!("{provider}: {}", failure.message),
        Known::SessionActivated { degraded: true } => "degraded: without its workspace".to_owned(),
        Known::SessionUpdated { expires_at, metadata, actor } => {
            let end = expires_at.map(|at| format!("ends at {at}"));
            let metadata = metadata.map(|_| "metadata".to_owned());
            let changes: Vec<String> = end.into_iter().chain(metadata).collect();
            format!("{}, by {}", changes.join(", "), name(&actor))
        }
        Known::NetworkOpened(opened) => format!("{}:{}, {}", opened.host, opened.port, opened.how),
        Known::NetworkRefused(refused) => format!("{}:{}, {}", refused.host, refused.port, refused.why),
        Known::NetworkTallied(tallied) => {
            let (out, back) =
                tallied.hosts.iter().fold((0, 0), |(out, back), host| (out + host.bytes_out, back + host.bytes_in));
            format!("{} hosts, {out} bytes sent, {back} received", tallied.hosts.len())
        }
        Known::NetworkNarrowed { deny, actor } => {
            let hosts: Vec<String> = deny.iter().map(|rule| rule.host.to_string()).collect();
            format!("no more {}, by {}", hosts.join(", "), name(&actor))
        }
        Known::NetworkGranted { grants, actor } => {
            let hosts: Vec<String> = grants.iter().map(|grant| grant.rule.host.to_string()).collect();
            let until = grants.first().map(|grant| format!(" until {}", grant.until)).unwrap_or_default();
            format!("{}{until}, by {}", hosts.join(", "), name(&actor))
        }
        Known::PauseRequested { mode, actor } => format!("{mode}, by {}", name(&actor)),
        Known::SessionPaused { mode } => mode.to_string(),
        Known::ResumeRequested { actor } => format!("by {}", name(&actor)),
        Known::PauseFailed { failure } | Known::ResumeFailed { failure } => failure.message,
        Known::WarningRaised { code, message } => format!("{code}: {message}"),
        Known::ToolCallStarted { tool, arguments, .. } => format!("{tool} {}", cell(&arguments)),
        Known::ToolCallFinished { answer, .. } => cell(&answer.message),
        Known::ToolCallRefused { message, .. }
        | Known::DigestRefused { message, .. }
        | Known::RewindRefused { message, .. } => message,
        Known::InitStepProgress { stage, percent, detail, .. }
        | Known::ProvisionProgress { stage, percent, detail, .. } => format!("{} {percent} % {detail}", cell(&stage)),
        Known::SetupOutputReceived { step, chunks, .. } => {
            let text: String = chunks.iter().map(|chunk| chunk.text.as_str()).collect();
            format!("step {step}: {}", cell(&text.trim()))
        }
        Known::CredentialUsed { host, purpose, secret: Some(secret), .. } => {
            format!("secret {secret} for {host}, {purpose}")
        }
        Known::CredentialUsed { kind, host, purpose, project, .. } => match project {
            Some(project) => format!("{kind} of project {project} for {host}, to {purpose}"),
            None => format!("{kind} for {host}, to {purpose}"),
        },
        Known::FileOperationStarted { operation, actor, .. } => {
            format!("{}, by {}", of_files(&operation), name(&actor))
        }
        Known::FileOperationFinished { failure: Some(failure), .. } => format!("failed: {}", failure.message),
        Known::FileOperationFinished { duration_ms, failure: None, .. } => format!("in {duration_ms} ms"),
        Known::SnapshotHashed { snapshot, tree_hash: Some(hash), .. } => format!("{snapshot} is {hash}"),
        Known::SnapshotHashed { snapshot, .. } => format!("{snapshot} has no hash"),
        Known::ExecStarted { spec, actor, .. } => format!("{}, by {}", spec.argv.join(" "), name(&actor)),
        Known::ExecFinished { exit, .. } => format!("exit code {}", exit.exit_code),
        Known::SessionFailed { failure: Reason { message, .. } }
        | Known::ExecFailed { failure: Reason { message, .. }, .. } => message,
        Known::PortOpened { port, actor } => format!("port {port}, by {}", name(&actor)),
        Known::WorkspaceShared { with } => format!("with {with}"),
        Known::DigestSet { section_key, actor, .. } | Known::DigestCleared { section_key, actor } => {
            format!("{section_key}, by {}", name(&actor))
        }
        Known::CloseRequested { reason, actor } => format!("{}, by {}", cell(&reason), name(&actor)),
        Known::ExecInterrupted { reason, .. }
        | Known::FileOperationInterrupted { reason, .. }
        | Known::ProvisionInterrupted { reason, .. }
        | Known::ToolCallInterrupted { reason, .. }
        | Known::RemovalFailed { reason }
        | Known::WorkspaceLost { reason } => reason,
        Known::WorkspaceCreated { .. }
        | Known::SessionActivated { .. }
        | Known::WorkspaceRemoved
        | Known::WorkspaceAdopted
        | Known::SessionClosed => String::new(),
        _ => return None,
    })
}

/// A change of files: its name and its subject.
fn of_files(operation: &FileOperation) -> String {
    let about = match operation {
        FileOperation::Checkpoint => return operation.name().to_owned(),
        FileOperation::Put { path, .. }
        | FileOperation::Unpack { path, .. }
        | FileOperation::MakeDirectory { path }
        | FileOperation::Delete { path, .. } => path.clone(),
        FileOperation::Snapshot { name: Some(name), .. } => name.clone(),
        FileOperation::Snapshot { snapshot, .. }
        | FileOperation::Restore { snapshot }
        | FileOperation::Rewind { snapshot, .. } => snapshot.to_string(),
    };
    format!("{} {}", operation.name(), cell(&about))
}

/// The raw fields of an event, which may be newer than this program.
fn rest(event: &Event) -> String {
    event.fields.iter().map(|(name, value)| format!("{name}={}", cell(value))).collect::<Vec<_>>().join(" ")
}

/// Name of the actor, without its kind.
fn name(actor: &Actor) -> String {
    match actor {
        Actor::Admin { name, .. } | Actor::User { name, .. } => name.clone(),
        Actor::Session { session } => session.to_string(),
        Actor::System => actor.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(event: serde_json::Value) -> String {
        event_row(&serde_json::from_value(event).unwrap())
    }

    #[test]
    fn an_event_is_one_line_whatever_it_holds() {
        let event = json!({"seq": 7, "at": "2026-11-15T09:30:00.120Z", "type": "ToolCallStarted", "tool": "write",
            "call": "call_01jz0000000000000000000000", "actor": {"kind": "system"}, "arguments": {"path": "a.txt"},
            "hash": "blake3:00"});
        assert_eq!(row(event), "    7  09:30:00.120  ToolCallStarted       write {\"path\":\"a.txt\"}");
        let newer = json!({"seq": 8, "at": "2026-11-15T09:30:00.120Z", "type": "Danced", "with": "you", "hash": "x"});
        assert_eq!(row(newer), "    8  09:30:00.120  Danced                with=you");
    }
}
