//! Everything that ever happened to the files of a workspace, from the journals of all sessions that worked in it.
//!
//! Sessions that share a workspace each record their own changes; the revision puts them in one order. A workspace that began as
//! another's snapshot has that one's history up to it first.

use std::collections::{HashMap, HashSet};

use stead_core::event::{FileChange, FileEffect, FileOperation};
use stead_core::plan::Action;
use stead_core::{CallId, Event, Recorded, SessionId, SnapshotId, Timestamp};
use stead_providers::{FileEvent, Mark};

use crate::engine::Engine;
use crate::error::OpError;
use crate::files::from_journal;
use crate::open_session::{each_event, load};

/// The whole history, oldest first.
pub(crate) async fn history(engine: &Engine, session: SessionId) -> Result<Vec<FileEvent>, OpError> {
    let mut found = Vec::new();
    let mut at = Some((session, None));
    // Backwards through the origins: each contributes its history up to the snapshot the next one began with.
    while let Some((session, until)) = at {
        let root = first_of(engine, session).await?;
        let (mut entries, origin) = shared_history(engine, root).await?;
        if let Some(until) = until {
            let end = entries.iter().position(|entry| entry.mark == Some(Mark::Kept(until)));
            entries.truncate(end.map_or(entries.len(), |end| end + 1));
        }
        found.push(entries);
        at = origin.map(|(session, snapshot)| (session, Some(snapshot)));
    }
    let mut history = Vec::new();
    for entry in found.into_iter().rev().flatten() {
        history.push(entry.resolve(engine).await?);
    }
    Ok(history)
}

/// The session that had the workspace made.
async fn first_of(engine: &Engine, session: SessionId) -> Result<SessionId, OpError> {
    let mut first = session;
    let mut seen = HashSet::new();
    while seen.insert(first) {
        let state = load(engine, first).await?;
        let spec = state.session.as_ref().and_then(|session| session.workspace_spec());
        match spec.and_then(|spec| spec.shared_with) {
            Some(source) => first = source,
            None => break,
        }
    }
    Ok(first)
}

type Origin = Option<(SessionId, SnapshotId)>;

/// What all sessions of one workspace recorded, in the order it happened, and where its files came from.
async fn shared_history(engine: &Engine, root: SessionId) -> Result<(Vec<Entry>, Origin), OpError> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut origin = None;
    let mut sessions = vec![root];
    let mut seen = HashSet::new();
    while let Some(session) = sessions.pop() {
        if !seen.insert(session) {
            continue;
        }
        let mut reader = Reader::new(session);
        each_event(engine, session, |recorded| {
            reader.read(recorded);
            Ok(())
        })
        .await?;
        entries.append(&mut reader.entries);
        sessions.append(&mut reader.shared);
        origin = origin.or(reader.origin);
    }
    entries.sort_by_key(|entry| entry.revision);
    Ok((entries, origin))
}

/// A file event whose bytes may still be in the blob store.
struct Entry {
    session: SessionId,
    seq: u64,
    at: Timestamp,
    revision: u64,
    changes: Vec<FileChange>,
    mark: Option<Mark>,
    tree_hash: Option<String>,
}

impl Entry {
    async fn resolve(self, engine: &Engine) -> Result<FileEvent, OpError> {
        let mut changes = Vec::with_capacity(self.changes.len());
        for change in self.changes {
            changes.push(from_journal(engine, change).await?);
        }
        let Self { session, seq, at, mark, tree_hash, .. } = self;
        Ok(FileEvent { session, seq, at, changes, mark, tree_hash })
    }
}

/// Picks the file events out of one journal.
struct Reader {
    session: SessionId,
    entries: Vec<Entry>,
    shared: Vec<SessionId>,
    origin: Origin,
    revision: u64,
    step_started: Option<Timestamp>,
    calls: HashMap<CallId, (Timestamp, Option<Mark>)>,
}

impl Reader {
    fn new(session: SessionId) -> Self {
        let (entries, shared, calls) = (Vec::new(), Vec::new(), HashMap::new());
        Self { session, entries, shared, origin: None, revision: 0, step_started: None, calls }
    }

    fn read(&mut self, recorded: Recorded) {
        let (seq, at) = (recorded.seq, recorded.at);
        match recorded.event {
            Event::SessionCreated { spec, .. } => {
                let actions = spec.workspace.iter().flat_map(|workspace| &workspace.plan.actions);
                self.origin = actions.into_iter().find_map(|action| match action {
                    Action::RestoreSnapshot { session, snapshot } => Some((*session, *snapshot)),
                    _ => None,
                });
            }
            // What an earlier attempt wrote went with it.
            Event::ProvisionStarted { .. } => self.entries.clear(),
            Event::InitStepStarted { .. } => self.step_started = Some(at),
            Event::InitStepFinished { files, .. } => self.push(seq, self.step_started.unwrap_or(at), files, None),
            Event::WorkspaceReady { .. } => {
                let began = FileEffect { revision: Some(self.revision), ..FileEffect::default() };
                self.push(seq, at, began, Some(Mark::Began));
            }
            Event::ToolCallStarted { call, .. } => {
                self.calls.insert(call, (at, None));
            }
            Event::FileOperationStarted { call, operation, .. } => {
                let mark = match operation {
                    FileOperation::Snapshot { snapshot, .. } => Some(Mark::Kept(snapshot)),
                    FileOperation::Restore { snapshot } => Some(Mark::PutBack(snapshot)),
                    _ => None,
                };
                self.calls.insert(call, (at, mark));
            }
            Event::ToolCallFinished { call, files, .. } | Event::FileOperationFinished { call, files, .. } => {
                let (at, mark) = self.calls.remove(&call).unwrap_or((at, None));
                self.push(seq, at, files, mark);
            }
            Event::WorkspaceShared { with } => self.shared.push(with),
            _ => {}
        }
    }

    /// Keeps what happened to the tree. Without a revision nothing did.
    fn push(&mut self, seq: u64, at: Timestamp, files: FileEffect, mark: Option<Mark>) {
        let FileEffect { changes, tree_hash, revision: Some(revision) } = files else { return };
        self.revision = revision;
        self.entries.push(Entry { session: self.session, seq, at, revision, changes, mark, tree_hash });
    }
}
