//! The entries of a tree that a comparison looks at.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use stead_core::ContentHash;

use super::{MAX_HASHED, check_depth};
use crate::error::FsError;
use crate::filesystem::entry::{Kind, Permission};
use crate::filesystem::{Filesystem, Walk, Walked};
use crate::path::WorkspacePath;

/// A file or a link, the entries that a patch can describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) mode: &'static str,
    pub(super) size: u64,
    /// `None` for a file that is too large to be hashed.
    pub(super) digest: Option<ContentHash>,
}

impl Leaf {
    pub(super) fn is_link(&self) -> bool {
        self.mode == "120000"
    }
}

#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub(super) leaves: BTreeMap<WorkspacePath, Leaf>,
    /// FIFOs, sockets and devices.
    pub(super) special: BTreeSet<WorkspacePath>,
    pub(super) directories: BTreeSet<WorkspacePath>,
    /// Directories with an entry.
    occupied: BTreeSet<WorkspacePath>,
}

impl Inventory {
    /// Collects the entries at and below these paths.
    pub(super) fn of(fs: &dyn Filesystem, scopes: &[WorkspacePath]) -> Result<Self, FsError> {
        let mut found = Vec::new();
        let mut inventory = Self::default();
        for scope in scopes.iter().filter(|scope| !is_own_repository(scope)) {
            match fs.stat_entry(scope) {
                Ok(entry) if entry.kind != Kind::Directory => {
                    found.push(Walked { path: scope.clone(), kind: entry.kind });
                    continue;
                }
                Ok(_) => {}
                // The path is missing in this tree.
                Err(FsError::NotFound { .. } | FsError::NotDirectory { .. }) => continue,
                Err(error) => return Err(error),
            }
            if !scope.is_root() {
                found.push(Walked { path: scope.clone(), kind: Kind::Directory });
            }
            inventory.walk(fs, scope, &mut found)?;
        }
        for walked in found {
            match leaf(fs, &walked) {
                Ok(Some(leaf)) => drop(inventory.leaves.insert(walked.path, leaf)),
                Ok(None) if walked.kind == Kind::Directory => drop(inventory.directories.insert(walked.path)),
                Ok(None) => drop(inventory.special.insert(walked.path)),
                Err(error) if error.is_vanished() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(inventory)
    }

    fn walk(&mut self, fs: &dyn Filesystem, scope: &WorkspacePath, found: &mut Vec<Walked>) -> Result<(), FsError> {
        let mut too_deep = None;
        let walked = fs.walk(scope, &mut |walked| {
            // Most entries follow one of the same directory, which is then already known.
            if let Some(parent) = walked.path.parent()
                && !self.occupied.contains(&parent)
            {
                self.occupied.insert(parent);
            }
            if is_own_repository(&walked.path) {
                return ControlFlow::Continue(Walk::Skip);
            }
            if let Err(error) = check_depth(&walked.path) {
                too_deep = Some(error);
                return ControlFlow::Break(());
            }
            found.push(walked.clone());
            ControlFlow::Continue(Walk::Continue)
        });
        match walked {
            Err(error) if error.is_vanished() => {}
            walked => walked?,
        }
        too_deep.map_or(Ok(()), Err)
    }

    /// The directories without any entry.
    pub(super) fn empty_directories(&self) -> BTreeSet<WorkspacePath> {
        self.directories.difference(&self.occupied).cloned().collect()
    }
}

/// Returns `None` for an entry that a patch cannot describe.
fn leaf(fs: &dyn Filesystem, walked: &Walked) -> Result<Option<Leaf>, FsError> {
    Ok(Some(match walked.kind {
        Kind::Directory | Kind::Special => return Ok(None),
        Kind::Symlink => {
            let target = fs.read_link(&walked.path)?;
            Leaf { mode: "120000", size: target.len() as u64, digest: Some(ContentHash::of(&target)) }
        }
        Kind::File => {
            let stat = fs.stat_entry(&walked.path)?;
            let mode = if stat.permission == Permission::Executable { "100755" } else { "100644" };
            let digest = if stat.size > MAX_HASHED { None } else { Some(fs.hash(&walked.path)?) };
            Leaf { mode, size: stat.size, digest }
        }
    }))
}

/// Returns true for the repository of the workspace and everything in it. `.Git` is another name,
/// and so is the repository of a subdirectory: their changes are compared and reported.
pub(super) fn is_own_repository(path: &WorkspacePath) -> bool {
    path.segments().next() == Some(b".git")
}
