//! Leaves out the files that git ignores: untracked ones that a rule of the workspace matches.

use std::collections::HashSet;

use super::inventory::Leaf;
use super::{IgnoredFiles, tracked};
use crate::filesystem::Filesystem;
use crate::filesystem::entry::Kind;
use crate::path::WorkspacePath;
use crate::search::PathIgnores;

pub(super) struct IgnoreFilter<'a> {
    before: &'a dyn Filesystem,
    after: &'a dyn Filesystem,
    /// `None` if ignored files are included.
    rules: Option<PathIgnores<'a>>,
    tracked: Option<Tracked>,
}

/// The tracked paths: those of the first tree's index, or all paths of the first tree if it has
/// none, and those of the second tree's index.
struct Tracked {
    before: Option<HashSet<Vec<u8>>>,
    after: HashSet<Vec<u8>>,
}

impl<'a> IgnoreFilter<'a> {
    /// The rules are those of the tree after the changes, as in git.
    pub(super) fn new(before: &'a dyn Filesystem, after: &'a dyn Filesystem, ignored: IgnoredFiles) -> Self {
        let applies = match ignored {
            IgnoredFiles::Included => false,
            IgnoredFiles::LeftOut => true,
            IgnoredFiles::LeftOutOfRepositories => [before, after].into_iter().any(has_repository),
        };
        Self { before, after, rules: applies.then(|| PathIgnores::new(after)), tracked: None }
    }

    /// Returns true if the file is ignored and not tracked. `old` is the entry before the change.
    pub(super) fn leaves_out(&mut self, path: &WorkspacePath, old: Option<&Leaf>) -> bool {
        let Some(rules) = &mut self.rules else { return false };
        if !rules.ignores(path, Kind::File) {
            return false;
        }
        let (before, after) = (self.before, self.after);
        let tracked = self.tracked.get_or_insert_with(|| Tracked {
            before: tracked::tracked(before),
            after: tracked::tracked(after).unwrap_or_default(),
        });
        let name = path.as_bytes();
        let was_tracked = match &tracked.before {
            Some(index) => index.contains(name),
            None => old.is_some(),
        };
        !was_tracked && !tracked.after.contains(name)
    }

    pub(super) fn leaves_out_directory(&mut self, path: &WorkspacePath) -> bool {
        self.rules.as_mut().is_some_and(|rules| rules.ignores(path, Kind::Directory))
    }
}

fn has_repository(fs: &dyn Filesystem) -> bool {
    WorkspacePath::root().join(b".git").is_ok_and(|path| fs.stat_entry(&path).is_ok())
}
