//! The part of a directory that a checkpoint of it keeps: everything but the repository itself and,
//! in a git workspace, the files that git ignores.
//!
//! A rewind must not take back commits, and ignored directories (dependencies, build results) are
//! large and can be made again. Both stay as they are.

use super::PathIgnores;
use crate::filesystem::Filesystem;
use crate::filesystem::entry::Kind;
use crate::path::WorkspacePath;

const REPOSITORY: &[u8] = b".git";

/// Decides which entries belong to the working tree.
pub(crate) struct WorkingTree<'a> {
    rules: Option<PathIgnores<'a>>,
}

impl<'a> WorkingTree<'a> {
    /// Uses the rules of the tree if it has a repository at its root.
    pub(crate) fn of(fs: &'a dyn Filesystem) -> Self {
        let repository = WorkspacePath::root().joined(REPOSITORY);
        let rules = fs.stat_entry(&repository).is_ok().then(|| PathIgnores::new(fs));
        Self { rules }
    }

    /// Uses the rules of a kept tree, whose repository was left out.
    pub(crate) fn of_kept(fs: &'a dyn Filesystem) -> Self {
        Self { rules: Some(PathIgnores::new(fs)) }
    }

    /// Returns true if the entry and everything below it is left out. Call it only for entries
    /// whose parents are not.
    pub(crate) fn leaves_out(&mut self, path: &WorkspacePath, kind: Kind) -> bool {
        path.name() == Some(REPOSITORY) || self.rules.as_mut().is_some_and(|rules| rules.ignores(path, kind))
    }
}
