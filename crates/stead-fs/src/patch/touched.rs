//! Finds the paths at which a tree can differ from the one below it, from the overlay's upper
//! directories alone.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::check_depth;
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Filesystem, Walk};
use crate::path::WorkspacePath;

/// The paths at which two trees can differ.
pub(super) struct Touched {
    pub(super) scopes: Vec<WorkspacePath>,
    /// Directories of both trees that lost their last entry.
    pub(super) emptied: BTreeSet<WorkspacePath>,
}

/// Returns all files, links and whiteouts of the upper directories, and entries missing in a
/// directory that an upper has. A directory of an upper may be opaque. This is determined by
/// comparing the two trees, not from overlay attributes.
pub(super) fn touched(
    before: &dyn Filesystem,
    after: &dyn Filesystem,
    uppers: &[&dyn Filesystem],
) -> Result<Touched, FsError> {
    let mut emptied = BTreeSet::new();
    let mut scopes = Vec::new();
    let mut directories = BTreeSet::from([WorkspacePath::root()]);
    let mut too_deep = None;
    for upper in uppers {
        upper.walk(&WorkspacePath::root(), &mut |walked| {
            if let Err(error) = check_depth(&walked.path) {
                too_deep = Some(error);
                return ControlFlow::Break(());
            }
            if walked.kind == Kind::Directory {
                directories.insert(walked.path.clone());
            } else {
                scopes.push(walked.path.clone());
            }
            ControlFlow::Continue(Walk::Continue)
        })?;
    }
    too_deep.map_or(Ok(()), Err)?;
    for directory in directories {
        match (names(before, &directory)?, names(after, &directory)?) {
            (Some(before), Some(after)) => {
                scopes.extend(before.difference(&after).cloned());
                if after.is_empty() && !before.is_empty() && !directory.is_root() {
                    emptied.insert(directory);
                }
            }
            // A directory in only one of the trees: all of it differs.
            (Some(_), None) | (None, Some(_)) => scopes.push(directory),
            (None, None) => {}
        }
    }
    Ok(Touched { scopes, emptied })
}

/// Returns `None` if the path is not a directory.
fn names(fs: &dyn Filesystem, directory: &WorkspacePath) -> Result<Option<BTreeSet<WorkspacePath>>, FsError> {
    if !directory.is_root() {
        match fs.stat_entry(directory) {
            Ok(found) if found.kind == Kind::Directory => {}
            Ok(_) | Err(FsError::NotFound { .. } | FsError::NotDirectory { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    match fs.list(directory, usize::MAX) {
        Ok(listing) => Ok(Some(listing.entries.into_iter().map(|entry| entry.path).collect())),
        Err(error) if error.is_vanished() => Ok(None),
        Err(error) => Err(error),
    }
}
