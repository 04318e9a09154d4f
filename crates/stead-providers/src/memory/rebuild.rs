//! Rebuilds the tree as the fold of the journal's records, and checks every recorded hash.

use std::collections::HashMap;

use stead_core::{SessionId, SnapshotId};
use stead_fs::{FsError, MemoryFs};

use super::tree::Tree;
use crate::contract::provider::{FileEvent, Mark};

/// The first event at which the rebuilt tree and the record disagree.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    #[error("event {seq} of {session} cannot be applied again")]
    Change {
        session: SessionId,
        seq: u64,
        #[source]
        source: FsError,
    },
    #[error("event {seq} of {session} puts back a snapshot that was never kept")]
    Snapshot { session: SessionId, seq: u64 },
    #[error("the tree after event {seq} of {session} is {rebuilt}, recorded was {recorded}")]
    Hash { session: SessionId, seq: u64, rebuilt: String, recorded: String },
}

impl RebuildError {
    /// Sequence number of the event at which they disagree.
    pub fn seq(&self) -> u64 {
        match self {
            Self::Change { seq, .. } | Self::Snapshot { seq, .. } | Self::Hash { seq, .. } => *seq,
        }
    }
}

pub struct Rebuilt {
    pub tree: Tree,
    pub snapshots: HashMap<SnapshotId, MemoryFs>,
}

/// Folds a history, oldest first.
pub fn rebuild(history: &[FileEvent]) -> Result<Rebuilt, RebuildError> {
    let mut tree = Tree::default();
    let mut snapshots = HashMap::new();
    for event in history {
        let (session, seq) = (event.session, event.seq);
        let mut files = tree.files.clone();
        let mut kept = tree.kept.filter(|_| event.changes.is_empty());
        for change in &event.changes {
            files.apply(change, event.at.millis()).map_err(|source| RebuildError::Change { session, seq, source })?;
        }
        // An event without changes and without a tree hash did not touch the files.
        let revision = tree.revision + u64::from(event.tree_hash.is_some() || !event.changes.is_empty());
        for mark in &event.marks {
            match mark {
                Mark::Kept(snapshot) => {
                    snapshots.insert(*snapshot, files.clone());
                    kept = Some(*snapshot);
                }
                Mark::PutBack(snapshot) => {
                    files = snapshots.get(snapshot).cloned().ok_or(RebuildError::Snapshot { session, seq })?;
                    kept = Some(*snapshot);
                }
                Mark::Began => tree.base = files.clone(),
            }
        }
        tree = Tree { files, revision, base: tree.base, kept };
        if let (Some(recorded), Some(rebuilt)) = (&event.tree_hash, tree.hash())
            && *recorded != rebuilt
        {
            return Err(RebuildError::Hash { session, seq, rebuilt, recorded: recorded.clone() });
        }
    }
    Ok(Rebuilt { tree, snapshots })
}
