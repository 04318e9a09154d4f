//! Events that follow from outcomes of content: a finished sync, a finished call.

use super::decide::{adopt, after};
use super::event::{ApplyPoint, BoundCallFinished, BoundCallInterrupted, SnapshotReady, SyncFailed, SyncUnchanged};
use super::fault::{Stage, SyncFault};
use super::gate::{check_synced, synced_catalog};
use super::snapshot::Snapshot;
use crate::event::{Answer, Event};
use crate::registry::ContentBinding;
use crate::session::Session;
use crate::session::warning::WarningCode;
use crate::{CallId, Name};

#[derive(Debug, Clone, PartialEq)]
pub enum ContentOutcome {
    Read { sync: u64, read: Result<ReadContent, SyncFault> },
    CallFinished { call: CallId, duration_ms: u64, answer: Answer },
}

/// The result of resolving and reading content.
#[derive(Debug, Clone, PartialEq)]
pub enum ReadContent {
    /// The caller already knows this version, so nothing was read.
    Unchanged {
        workspace: Name,
        version: u64,
    },
    Snapshot {
        snapshot: Box<Snapshot>,
        warnings: Vec<(WarningCode, String)>,
    },
}

pub(crate) fn conclude(session: &Session, outcome: ContentOutcome) -> Vec<Event> {
    match outcome {
        ContentOutcome::Read { sync, read } => {
            let open = session.content.sync.as_ref().filter(|open| open.seq == sync);
            // The session was closed, or a restart caused a second read. The sync has its outcome.
            let Some(open) = open else { return Vec::new() };
            match read.and_then(|read| staged(session, read)) {
                Ok(events) => events,
                Err(SyncFault { stage, detail }) => {
                    let workspace = open.requested.workspace_binding.named();
                    vec![Event::WorkspaceSyncFailed(SyncFailed { workspace, stage, detail, actor: None })]
                }
            }
        }
        ContentOutcome::CallFinished { call, duration_ms, answer } => match session.content.open_calls.get(&call) {
            Some(_) => vec![Event::BoundCallFinished(Box::new(BoundCallFinished { call, duration_ms, answer }))],
            None => Vec::new(),
        },
    }
}

fn staged(session: &Session, read: ReadContent) -> Result<Vec<Event>, SyncFault> {
    let (mut snapshot, warnings) = match read {
        ReadContent::Unchanged { workspace, version } => {
            return Ok(vec![Event::WorkspaceSyncUnchanged(SyncUnchanged { workspace, version })]);
        }
        ReadContent::Snapshot { snapshot, warnings } => (snapshot, warnings),
    };
    let authority = &session.spec.authority;
    if !authority.names.contains(&snapshot.workspace) {
        let detail = format!("this session may not sync '{}'", snapshot.workspace);
        return Err(SyncFault::new(Stage::Resolve, detail));
    }
    let requested = session.content.sync.as_ref().map(|open| &open.requested);
    let binding = session.spec.content.as_ref();
    let pack = requested.and_then(|requested| requested.prompt_pack.as_deref());
    let catalog = requested.and_then(|requested| synced_catalog(session, requested));
    select(&mut snapshot, pack, catalog, binding)?;
    if let Some(requested) = requested {
        check_synced(session, &snapshot, &requested.actor)
            .map_err(|refusal| SyncFault::new(Stage::ToolCatalog, refusal.to_string()))?;
    }
    let mut events: Vec<Event> = warnings.into_iter().map(|(code, message)| code.raised(message)).collect();
    events.push(Event::WorkspaceSnapshotReady(SnapshotReady { snapshot }));
    // An apply may have been requested during the read, and its point may be now.
    events.extend(adopt(&after(&session.content, &events), ApplyPoint::Idle, None));
    Ok(events)
}

/// Selects the pack and the catalog. The request overrides the session's binding, which applies
/// only to the content it names. The binding overrides the index's default.
pub fn select(
    snapshot: &mut Snapshot,
    prompt_pack: Option<&str>,
    tool_catalog: Option<&str>,
    binding: Option<&ContentBinding>,
) -> Result<(), SyncFault> {
    let binding = binding.filter(|binding| binding.workspace == snapshot.workspace);
    let pack = prompt_pack.or_else(|| binding.and_then(|binding| binding.prompt_pack.as_deref()));
    let catalog = tool_catalog.or_else(|| binding.and_then(|binding| binding.tool_catalog.as_deref()));
    snapshot.select(pack, catalog)
}

/// Interrupts calls that are not calls of built-in tools, without an outcome.
pub(crate) fn interrupted(session: &Session, reason: &str) -> Vec<Event> {
    let open = session.content.open_calls.keys().filter(|call| !session.open_calls.contains_key(call));
    open.map(|call| Event::BoundCallInterrupted(BoundCallInterrupted { call: *call, reason: reason.to_owned() }))
        .collect()
}
