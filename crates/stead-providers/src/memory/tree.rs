//! A memory workspace's files at one revision, and the snapshots all workspaces keep.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_core::{SnapshotId, WorkspaceId};
use stead_fs::{Filesystem, MemoryFs};

/// Cloning shares every node.
#[derive(Clone, Default)]
pub struct Tree {
    pub(super) files: MemoryFs,
    /// How often something happened to the tree.
    pub(super) revision: u64,
    /// The files the session began with.
    pub(super) base: MemoryFs,
    /// The snapshot that has these very files.
    pub(super) kept: Option<SnapshotId>,
}

impl Tree {
    /// The next revision, with these files.
    pub(super) fn with(&self, files: MemoryFs) -> Tree {
        Tree { files, revision: self.revision + 1, base: self.base.clone(), kept: None }
    }

    /// The hash of the whole tree, kept by its nodes.
    pub fn hash(&self) -> Option<String> {
        self.files.tree_hash().ok().map(|hash| hash.to_string())
    }
}

/// Snapshots by id, each with the workspace it goes with.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<HashMap<SnapshotId, (WorkspaceId, MemoryFs)>>>);

impl Kept {
    fn lock(&self) -> MutexGuard<'_, HashMap<SnapshotId, (WorkspaceId, MemoryFs)>> {
        // Only whole entries are inserted and removed: a panic elsewhere cannot leave the map half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, owner: WorkspaceId, snapshot: SnapshotId, files: MemoryFs) {
        self.lock().insert(snapshot, (owner, files));
    }

    pub(super) fn find(&self, snapshot: SnapshotId) -> Option<MemoryFs> {
        self.lock().get(&snapshot).map(|(_, files)| files.clone())
    }

    pub(super) fn drop_all(&self, snapshots: &[SnapshotId]) {
        self.lock().retain(|snapshot, _| !snapshots.contains(snapshot));
    }

    pub(super) fn retain(&self, owner: WorkspaceId, wanted: &BTreeSet<SnapshotId>) {
        self.lock().retain(|snapshot, (of, _)| *of != owner || wanted.contains(snapshot));
    }

    pub(super) fn forget(&self, owner: WorkspaceId) {
        self.lock().retain(|_, (of, _)| *of != owner);
    }
}
