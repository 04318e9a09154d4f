//! Removes entries.
//!
//! A directory is first counted and checked: if one cannot be emptied, the removal fails before
//! anything is removed. Then the deepest directories go first, each opened beneath the root without
//! following links.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Access, AtFlags, FileType, OFlags, accessat, unlinkat};
use rustix::io::Errno;

use super::create::split;
use super::walk::for_each_name;
use super::{DiskFs, errno};
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::resolve::LastLink;
use crate::filesystem::{Recursion, Walk};
use crate::path::WorkspacePath;

/// Maximum number of attempts to empty a directory that another process keeps filling.
const PATIENCE: usize = 100;

impl DiskFs {
    pub(super) fn remove(&self, path: &WorkspacePath, recursion: Recursion) -> Result<u64, FsError> {
        if path.is_root() {
            return Err(FsError::Root);
        }
        let found = self.find(path, LastLink::Kept)?;
        if found.kind() != Kind::Directory {
            self.unlink(&found.path, AtFlags::empty())?;
            self.sync_parent(&found.path)?;
            return Ok(1);
        }
        if recursion == Recursion::EmptyOnly {
            self.unlink(&found.path, AtFlags::REMOVEDIR)?;
            self.sync_parent(&found.path)?;
            return Ok(1);
        }
        let tree = self.survey(&found.path)?;
        for directory in tree.directories.iter().rev() {
            self.remove_directory(directory)?;
        }
        // Syncing the parent of the topmost entry is enough, because all removed entries are below
        // it.
        self.sync_parent(&found.path)?;
        Ok(tree.entries)
    }

    /// Counts a tree, and checks that every directory of it can be emptied.
    pub(super) fn survey(&self, path: &WorkspacePath) -> Result<Tree, FsError> {
        let mut tree = Tree { entries: 1, directories: vec![path.clone()] };
        self.check_emptiable(path)?;
        let mut refused = None;
        self.walk_below(path, &|_, _| true, &mut |walked| {
            tree.entries += 1;
            if walked.kind == Kind::Directory {
                if let Err(error) = self.check_emptiable(&walked.path) {
                    refused = Some(error);
                    return ControlFlow::Break(());
                }
                tree.directories.push(walked.path.clone());
            }
            ControlFlow::Continue(Walk::Continue)
        })?;
        refused.map_or(Ok(tree), Err)
    }

    pub(super) fn check_emptiable(&self, path: &WorkspacePath) -> Result<(), FsError> {
        let directory = match self.root.directory(path) {
            Ok(directory) => directory,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(other) => return Err(errno::error("remove", path, other)),
        };
        accessat(&directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|errno| errno::error("remove", path, errno))
    }

    /// Removes the non-directory entries of a directory, and then the directory.
    fn remove_directory(&self, path: &WorkspacePath) -> Result<(), FsError> {
        let failed = |errno| errno::error("remove", path, errno);
        for _ in 0..PATIENCE {
            match self.root.open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW) {
                Ok(directory) => {
                    let mut names = Vec::new();
                    for_each_name(directory.as_fd(), |name, file_type| names.push((name.to_vec(), file_type)))
                        .map_err(failed)?;
                    for (name, file_type) in names {
                        let how = if file_type == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                        match unlinkat(&directory, OsStr::from_bytes(&name), how) {
                            // It disappeared or changed its kind; the next round examines it again.
                            Ok(()) | Err(Errno::NOENT | Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY) => {}
                            Err(other) => return Err(failed(other)),
                        }
                    }
                }
                Err(Errno::NOENT) => return Ok(()),
                Err(other) => return Err(failed(other)),
            }
            match self.unlink(path, AtFlags::REMOVEDIR) {
                Ok(()) | Err(FsError::NotFound { .. }) => return Ok(()),
                Err(FsError::DirectoryNotEmpty { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Err(FsError::DirectoryNotEmpty { path: path.clone() })
    }

    fn sync_parent(&self, path: &WorkspacePath) -> Result<(), FsError> {
        let (parent, _) = split(path)?;
        let synced = self.root.directory(&parent).and_then(|parent| self.durability.directory(parent.as_fd()));
        match synced {
            // Another process removed the parent as well.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno::error("sync", path, errno)),
        }
    }

    fn unlink(&self, path: &WorkspacePath, how: AtFlags) -> Result<(), FsError> {
        let failed = |errno| errno::error("remove", path, errno);
        let (parent, name) = split(path)?;
        let directory = self.root.directory(&parent).map_err(failed)?;
        unlinkat(&directory, OsStr::from_bytes(name), how).map_err(failed)
    }
}

pub(super) struct Tree {
    pub(super) entries: u64,
    /// Each directory comes before its subdirectories.
    directories: Vec<WorkspacePath>,
}
