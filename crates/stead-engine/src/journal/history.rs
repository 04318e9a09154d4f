//! The complete history of a workspace's files, from the journals of all sessions that used it.
//!
//! Sessions that share a workspace record their own changes. The revision gives all changes one
//! order. A workspace that began as a snapshot of another one has that one's history up to the
//! snapshot first.

use std::collections::{HashMap, HashSet};

use stead_core::event::{FileChange, FileEffect, FileOperation};
use stead_core::plan::Action;
use stead_core::rewind::{Checkpoint, Touched};
use stead_core::{Actor, Event, Recorded, SessionId, SnapshotId, Timestamp};
use stead_providers::{FileEvent, Mark};

use crate::effects::file_changes::from_journal;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::{each_event, load};

/// The history of files that live in the journal, oldest first.
pub(crate) async fn history(engine: &Engine, session: SessionId) -> Result<Vec<FileEvent>, OpError> {
    let mut history = Vec::new();
    for entry in entries(engine, session).await? {
        if entry.revision.is_some() {
            history.push(entry.resolve(engine).await?);
        }
    }
    Ok(history)
}

/// Everything that touched the files, oldest first.
pub(crate) async fn entries(engine: &Engine, session: SessionId) -> Result<Vec<Entry>, OpError> {
    let mut found = Vec::new();
    let mut at = Some((session, None));
    // Walks back through the origins. Each contributes its history up to the snapshot that the next
    // one began with.
    while let Some((session, until)) = at {
        let root = first_of(engine, session).await?;
        let (mut entries, origin) = shared_history(engine, root).await?;
        if let Some(until) = until {
            cut_after(&mut entries, until);
        }
        found.push(entries);
        at = origin.map(|(session, snapshot)| (session, Some(snapshot)));
    }
    Ok(found.into_iter().rev().flatten().collect())
}

/// Removes the entries after a snapshot, including later marks of the event that created it.
fn cut_after(entries: &mut Vec<Entry>, until: SnapshotId) {
    let kept = |mark: &Mark| *mark == Mark::Kept(until);
    let Some(end) = entries.iter().position(|entry| entry.marks.iter().any(kept)) else { return };
    entries.truncate(end + 1);
    if let Some(last) = entries.last_mut()
        && let Some(mark) = last.marks.iter().position(kept)
        && mark + 1 < last.marks.len()
    {
        last.marks.truncate(mark + 1);
        // The hash belongs to the tree after all marks.
        last.tree_hash = None;
    }
}

/// Returns the session that created the workspace.
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

/// Returns the records of all sessions of one workspace, in order, and the origin of its files.
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
    // If the files do not live in the journal, there is only the time to sort by.
    match entries.iter().any(|entry| entry.revision.is_some_and(|revision| revision > 0)) {
        true => entries.sort_by_key(|entry| entry.revision),
        false => entries.sort_by_key(|entry| entry.at),
    }
    Ok((entries, origin))
}

/// An operation that touched files. Its bytes may still be in the blob store.
pub(crate) struct Entry {
    pub(crate) session: SessionId,
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    /// The position among the changes of all sessions of the workspace, if the files live in the
    /// journal.
    revision: Option<u64>,
    pub(crate) changes: Vec<FileChange>,
    pub(crate) touched: Option<Touched>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) checkpoint: Option<Checkpoint>,
    tree_hash: Option<String>,
    pub(crate) deed: Deed,
}

/// The actor and the operation behind a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    pub kind: DeedKind,
    /// The tool, the operation, the init action, or the command.
    pub name: String,
    /// The id of the call or exec, if it was one.
    pub id: Option<String>,
    pub actor: Actor,
}

/// The kind of an operation that changes files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeedKind {
    /// The session's initial files.
    Start,
    Tool,
    Exec,
    Operation,
}

impl DeedKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Tool => "tool",
            Self::Exec => "exec",
            Self::Operation => "operation",
        }
    }
}

impl Entry {
    async fn resolve(self, engine: &Engine) -> Result<FileEvent, OpError> {
        let mut changes = Vec::with_capacity(self.changes.len());
        for change in self.changes {
            changes.push(from_journal(engine, change).await?);
        }
        let Self { session, seq, at, marks, tree_hash, .. } = self;
        Ok(FileEvent { session, seq, at, changes, marks, tree_hash })
    }
}

/// Collects the file events of one journal.
struct Reader {
    session: SessionId,
    entries: Vec<Entry>,
    shared: Vec<SessionId>,
    origin: Origin,
    revision: u64,
    step: Option<(Timestamp, Deed)>,
    open: HashMap<String, (Timestamp, Deed, Vec<Mark>)>,
}

impl Reader {
    fn new(session: SessionId) -> Self {
        let (entries, shared, open) = (Vec::new(), Vec::new(), HashMap::new());
        Self { session, entries, shared, origin: None, revision: 0, step: None, open }
    }

    fn read(&mut self, recorded: Recorded) {
        let (seq, at) = (recorded.seq, recorded.at);
        let start = |name: &str| Deed { kind: DeedKind::Start, name: name.to_owned(), id: None, actor: Actor::System };
        match recorded.event {
            Event::SessionCreated { spec, .. } => {
                let actions = spec.workspace.iter().flat_map(|workspace| &workspace.plan.actions);
                self.origin = actions.into_iter().find_map(|action| match action {
                    Action::RestoreSnapshot { session, snapshot } => Some((*session, *snapshot)),
                    _ => None,
                });
            }
            // The files of an earlier attempt were removed with its box.
            Event::ProvisionStarted { .. } => self.entries.clear(),
            Event::InitStepStarted { action, .. } => self.step = Some((at, start(&action))),
            Event::InitStepFinished { files, .. } => {
                let (at, deed) = self.step.take().unwrap_or_else(|| (at, start("init")));
                self.push(seq, at, files, Vec::new(), deed);
            }
            Event::WorkspaceReady { point, .. } => {
                let files = FileEffect { revision: Some(self.revision), point, ..FileEffect::default() };
                self.push(seq, at, files, vec![Mark::Began], start("begin"));
            }
            Event::ToolCallStarted { call, tool, actor, .. } => {
                let id = call.to_string();
                let deed = Deed { kind: DeedKind::Tool, name: tool.to_string(), id: Some(id.clone()), actor };
                self.open.insert(id, (at, deed, Vec::new()));
            }
            Event::FileOperationStarted { call, operation, actor } => {
                let marks = match operation {
                    FileOperation::Snapshot { snapshot, .. } => vec![Mark::Kept(snapshot)],
                    FileOperation::Restore { snapshot } => vec![Mark::PutBack(snapshot)],
                    FileOperation::Rewind { snapshot, before, .. } => {
                        vec![Mark::Kept(before), Mark::PutBack(snapshot)]
                    }
                    _ => Vec::new(),
                };
                let (id, name) = (call.to_string(), operation.name().to_owned());
                let deed = Deed { kind: DeedKind::Operation, name, id: Some(id.clone()), actor };
                self.open.insert(id, (at, deed, marks));
            }
            Event::ExecStarted { exec, spec, actor } => {
                let (id, name) = (exec.to_string(), spec.argv.join(" ").chars().take(200).collect());
                let deed = Deed { kind: DeedKind::Exec, name, id: Some(id.clone()), actor };
                self.open.insert(id, (at, deed, Vec::new()));
            }
            Event::FileOperationFinished { call, failure: Some(_), .. } => drop(self.open.remove(&call.to_string())),
            Event::ToolCallFinished { call, files, .. } | Event::FileOperationFinished { call, files, .. } => {
                self.end(seq, &call.to_string(), files);
            }
            Event::ExecFinished { exec, files, .. } => self.end(seq, &exec.to_string(), files),
            Event::WorkspaceShared { with } => self.shared.push(with),
            _ => {}
        }
    }

    fn end(&mut self, seq: u64, id: &str, files: FileEffect) {
        if let Some((at, deed, marks)) = self.open.remove(id) {
            self.push(seq, at, files, marks, deed);
        }
    }

    /// Adds an entry if the effect says anything about files.
    fn push(&mut self, seq: u64, at: Timestamp, files: FileEffect, mut marks: Vec<Mark>, deed: Deed) {
        let FileEffect { changes, tree_hash, revision, touched, point: checkpoint, .. } = files;
        if let (Some(Checkpoint::Kept(snapshot)), Some(_)) = (checkpoint, revision) {
            marks.push(Mark::Kept(snapshot));
        }
        if revision.is_none() && touched.is_none() && checkpoint.is_none() && marks.is_empty() {
            return;
        }
        self.revision = revision.unwrap_or(self.revision);
        let session = self.session;
        self.entries.push(Entry { session, seq, at, revision, changes, touched, marks, checkpoint, tree_hash, deed });
    }
}
