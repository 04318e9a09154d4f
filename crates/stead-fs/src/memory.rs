//! The memory backend: a persistent tree that shares all unchanged nodes.
//!
//! Invariant: the tree changes only in [`MemoryFs::apply`], which takes a [`Change`]. So clone,
//! snapshot and restore copy one pointer, and a journal of changes is a complete description. The
//! cached hash of a directory is dropped exactly when something below it changes.

mod apply;
mod backend;
mod hash;
mod lookup;
mod tree;
mod usage;
mod walk;
mod writer;

use std::fmt;
use std::sync::Arc;

use tree::Directory;

#[cfg(doc)]
use crate::Change;

/// Files in memory, without a server, a disk or a clock.
///
/// ```
/// use stead_fs::{Change, Filesystem, MemoryFs, WriteMode};
///
/// let mut fs = MemoryFs::new();
/// fs.write(&"a/b.txt".parse()?, "one", WriteMode::Create, 1_000)?;
///
/// // The same changes give the same tree.
/// let mut replayed = MemoryFs::new();
/// replayed.apply(&Change::Wrote { path: "a/b.txt".parse()?, content: "one".into() }, 1_000)?;
/// assert_eq!(fs.tree_hash()?, replayed.tree_hash()?);
///
/// // A snapshot is a clone, and a clone is one pointer.
/// let snapshot = fs.snapshot()?;
/// fs.delete(&"a".parse()?, stead_fs::Recursion::Recursive)?;
/// fs.restore(&snapshot)?;
/// assert_eq!(fs.read_bytes(&"a/b.txt".parse()?)?, "one".as_bytes());
/// # Ok::<(), stead_fs::FsError>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryFs {
    root: Arc<Directory>,
}

impl MemoryFs {
    /// Maximum depth of directories. Nodes are freed and hashed recursively, and this bounds the
    /// recursion.
    pub const MAX_DEPTH: usize = 128;

    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for MemoryFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryFs").field("tree_hash", &self.root.hash()).finish()
    }
}
