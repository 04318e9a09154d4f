//! Finds the call that last wrote a file.
//!
//! The answer comes from the journals alone: the record of each call names the changed files. A
//! restore or a rewind does not change the writer of a file that it puts back.

use std::collections::HashMap;

use stead_core::capability::FileStorage;
use stead_core::event::FileChange;
use stead_core::rewind::{Checkpoint, CheckpointCost};
use stead_core::tool::ToolName;
use stead_core::{Actor, SessionId, SnapshotId, Timestamp};
use stead_fs::{FsError, PathRules, WorkspacePath};
use stead_providers::{Mark, OperateError};

use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::history::{Deed, DeedKind, Entry, entries};
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::files::read_files::allowed;

/// The last change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blame {
    pub path: String,
    /// `None` if no operation touched it since the session began.
    pub last: Option<Wrote>,
    /// Calls that touched more files than their records name. Each may be the real last writer.
    pub uncertain: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrote {
    pub session: SessionId,
    pub seq: u64,
    pub at: Timestamp,
    pub deed: Deed,
    pub what: Deeds,
}

/// The kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deeds {
    Wrote,
    Removed,
}

#[boxed]
pub async fn blame(engine: &Engine, actor: &Actor, id: SessionId, path: &str) -> Result<Blame, OpError> {
    if let Actor::Session { .. } = actor {
        allowed(engine, actor, id, &[ToolName::Read]).await?;
    }
    let parsed = WorkspacePath::parse(path, &PathRules::existing());
    let path = parsed.map_err(|error| OpError::Operate(OperateError::Fs(FsError::from(error))))?.to_string();
    let _slot = engine.enter(id).await?;
    let entries = entries(engine, id).await?;
    let named = entries.iter().any(|entry| entry.touched.is_some() || !entry.changes.is_empty());
    let session = OpenSession::open(engine, id).await?;
    let blame = fold(path, entries);
    let looked = session.checkpoint_cost().await >= CheckpointCost::Layers && blame.uncertain.is_empty();
    if !named && !looked && !in_journal(engine, &session).await {
        return Err(OpError::Untracked);
    }
    Ok(blame)
}

/// Returns true if the session's files live in the journal, which then names every change.
async fn in_journal(engine: &Engine, session: &OpenSession) -> bool {
    let state = session.state().await;
    let provider = state.session.and_then(|session| session.workspace.as_ref()?.provider);
    let offered = provider.and_then(|provider| engine.providers().get(provider).ok().map(|it| it.capabilities()));
    offered.is_some_and(|offered| offered.files == FileStorage::Journal)
}

/// Finds the last writer of a path in the entries.
fn fold(path: String, entries: Vec<Entry>) -> Blame {
    let mut now: (Option<Wrote>, Vec<u64>) = (None, Vec::new());
    let mut last = None;
    let mut kept: HashMap<SnapshotId, (Option<Wrote>, Vec<u64>)> = HashMap::new();
    for entry in entries {
        if let Some(what) = touched(&entry, &path) {
            let Entry { session, seq, at, deed, .. } = &entry;
            now = (Some(Wrote { session: *session, seq: *seq, at: *at, deed: deed.clone(), what }), Vec::new());
        } else if unsure(&entry, last) {
            now.1.push(entry.seq);
        }
        last = entry.checkpoint.or(last);
        for mark in &entry.marks {
            match mark {
                Mark::Kept(snapshot) => drop(kept.insert(*snapshot, now.clone())),
                Mark::PutBack(snapshot) => now = kept.get(snapshot).cloned().unwrap_or_default(),
                Mark::Began => {}
            }
        }
        if let (Some(Checkpoint::Kept(snapshot)), true) = (entry.checkpoint, entry.marks.is_empty()) {
            kept.entry(snapshot).or_insert_with(|| now.clone());
        }
    }
    Blame { path, last: now.0, uncertain: now.1 }
}

/// Returns true if the operation may have touched more files than its entry names.
fn unsure(entry: &Entry, before: Option<Checkpoint>) -> bool {
    match (&entry.touched, entry.checkpoint) {
        (Some(touched), _) => touched.more > 0,
        (None, Some(checkpoint)) => {
            entry.deed.kind != DeedKind::Start
                && entry.changes.is_empty()
                && entry.marks.is_empty()
                && before != Some(checkpoint)
        }
        (None, None) => false,
    }
}

fn touched(entry: &Entry, path: &str) -> Option<Deeds> {
    let holds = |above: &str| above == path || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
    let mut found = None;
    for change in &entry.changes {
        found = match change {
            FileChange::Wrote { path: at, .. }
            | FileChange::Appended { path: at, .. }
            | FileChange::MadeDirectory { path: at }
            | FileChange::Linked { path: at, .. }
            | FileChange::MadeExecutable { path: at }
            | FileChange::MadePlain { path: at }
                if at == path =>
            {
                Some(Deeds::Wrote)
            }
            FileChange::Removed { path: at } if holds(at) => Some(Deeds::Removed),
            FileChange::Renamed { from, .. } if holds(from) => Some(Deeds::Removed),
            FileChange::Renamed { to, .. } | FileChange::Copied { to, .. } if holds(to) => Some(Deeds::Wrote),
            _ => found,
        };
    }
    let named = entry.touched.as_ref();
    if named.is_some_and(|touched| touched.removed.iter().any(|at| holds(at))) {
        found = Some(Deeds::Removed);
    }
    if named.is_some_and(|touched| touched.wrote.iter().any(|at| at == path)) {
        found = Some(Deeds::Wrote);
    }
    found
}
