//! Hashes of snapshots that are computed after the snapshot.

use std::sync::Arc;

use super::{HashAbsence, Session, Snapshot};
use crate::SnapshotId;
use crate::event::{Event, Recorded};

impl Session {
    /// Snapshots whose hash is still to be computed.
    pub fn pending_hashes(&self) -> impl Iterator<Item = SnapshotId> + '_ {
        let pending = |kept: &Snapshot| kept.tree_hash_absent == Some(HashAbsence::Pending);
        self.snapshots.iter().filter(move |(_, kept)| pending(kept)).map(|(id, _)| *id)
    }

    fn keep_snapshot_hash(&mut self, id: SnapshotId, hash: Option<&String>, absent: Option<HashAbsence>) {
        if let Some(kept) = Arc::make_mut(&mut self.snapshots).get_mut(&id) {
            (kept.tree_hash, kept.tree_hash_absent) = (hash.cloned(), absent);
        }
    }
}

/// Folds an event. Returns true if no other part of the state depends on it.
pub(super) fn fold(session: &mut Session, recorded: &Recorded) -> bool {
    match &recorded.event {
        Event::SnapshotHashed { snapshot, tree_hash, tree_hash_absent } => {
            session.keep_snapshot_hash(*snapshot, tree_hash.as_ref(), *tree_hash_absent);
            true
        }
        // After the end of a session no hash is computed any more.
        Event::SessionFailed { .. } | Event::SessionClosed => {
            let pending: Vec<SnapshotId> = session.pending_hashes().collect();
            for id in pending {
                session.keep_snapshot_hash(id, None, Some(HashAbsence::Failed));
            }
            false
        }
        _ => false,
    }
}
