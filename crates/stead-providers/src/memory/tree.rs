//! A memory workspace's files at one revision, and the snapshots of all workspaces.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_core::{SnapshotId, WorkspaceId};
use stead_fs::{Filesystem, MemoryFs};

/// A revision of the files. A clone shares all nodes.
#[derive(Clone, Default)]
pub struct Tree {
    pub(super) files: MemoryFs,
    /// Number of operations on the tree so far.
    pub(super) revision: u64,
    /// The files at the start of the session.
    pub(super) base: MemoryFs,
    /// The snapshot that equals `files`.
    pub(super) kept: Option<SnapshotId>,
}

impl Tree {
    /// Returns the next revision, with these files.
    pub(super) fn with(&self, files: MemoryFs) -> Tree {
        Tree { files, revision: self.revision + 1, base: self.base.clone(), kept: None }
    }

    /// Returns the hash of the whole tree, which the nodes cache.
    pub fn hash(&self) -> Option<String> {
        self.files.tree_hash().ok().map(|hash| hash.to_string())
    }
}

/// Snapshots of all workspaces.
#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Snapshots>>);

#[derive(Default)]
struct Snapshots {
    owners: HashMap<SnapshotId, WorkspaceId>,
    of: HashMap<WorkspaceId, HashMap<SnapshotId, MemoryFs>>,
}

impl Snapshots {
    fn retain(&mut self, owner: WorkspaceId, wanted: impl Fn(&SnapshotId) -> bool) {
        let Some(kept) = self.of.get_mut(&owner) else { return };
        kept.retain(|snapshot, _| wanted(snapshot));
        if kept.is_empty() {
            self.of.remove(&owner);
        }
        self.owners.retain(|snapshot, of| *of != owner || wanted(snapshot));
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Snapshots> {
        // Each change updates both maps together, so a panic cannot leave them inconsistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, owner: WorkspaceId, snapshot: SnapshotId, files: MemoryFs) {
        let mut snapshots = self.lock();
        snapshots.owners.insert(snapshot, owner);
        snapshots.of.entry(owner).or_default().insert(snapshot, files);
    }

    pub(super) fn find(&self, snapshot: SnapshotId) -> Option<MemoryFs> {
        let snapshots = self.lock();
        snapshots.of.get(snapshots.owners.get(&snapshot)?)?.get(&snapshot).cloned()
    }

    /// Returns true if a workspace's snapshots and these two trees together take at most
    /// `most_bytes`.
    pub(super) fn has_room(&self, owner: WorkspaceId, trees: [&MemoryFs; 2], most_bytes: u64) -> bool {
        let snapshots = self.lock();
        let kept = snapshots.of.get(&owner).into_iter().flat_map(HashMap::values);
        let all: Vec<&MemoryFs> = kept.chain(trees).collect();
        // The sum is cheap, but counts shared nodes several times.
        let sum: u64 = all.iter().map(|tree| tree.used_bytes()).sum();
        sum <= most_bytes || MemoryFs::used_together(all) <= most_bytes
    }

    pub(super) fn drop_all(&self, owner: WorkspaceId, gone: &[SnapshotId]) {
        self.lock().retain(owner, |snapshot| !gone.contains(snapshot));
    }

    pub(super) fn retain(&self, owner: WorkspaceId, wanted: &BTreeSet<SnapshotId>) {
        self.lock().retain(owner, |snapshot| wanted.contains(snapshot));
    }

    pub(super) fn forget(&self, owner: WorkspaceId) {
        self.lock().retain(owner, |_| false);
    }
}
