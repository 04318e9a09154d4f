//! Syncs to disk, for changes with [`Durability::Synced`].

use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{OFlags, fsync, syncfs};
use rustix::io::Errno;

use super::beneath::reopen;
use super::{DiskFs, Durability, errno};
use crate::error::FsError;
use crate::filesystem::Walk;
use crate::filesystem::entry::Kind;
use crate::path::WorkspacePath;

impl Durability {
    /// Syncs a directory whose entries changed.
    ///
    /// A directory that its owner made unreadable cannot be opened for that. Its change stays in
    /// the kernel and reaches the disk with the next commit of the filesystem's journal.
    pub(super) fn directory(self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        if self == Self::Kernel {
            return Ok(());
        }
        match reopen(directory, OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(Errno::ACCESS | Errno::PERM) => Ok(()),
            opened => opened.and_then(fsync),
        }
    }

    /// Syncs a file whose attributes changed, through any descriptor of it.
    ///
    /// A file that cannot be opened for reading is left to the sync of its directory.
    pub(super) fn file(self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if self == Self::Kernel {
            return Ok(());
        }
        match reopen(file, OFlags::RDONLY | OFlags::NONBLOCK) {
            Err(Errno::ACCESS | Errno::PERM) => Ok(()),
            opened => opened.and_then(fsync),
        }
    }
}

impl DiskFs {
    /// Syncs the whole tree to disk, whatever the durability of this value is.
    ///
    /// One `syncfs` costs less than an `fsync` for each file. If a seccomp filter refuses `syncfs`,
    /// each entry is synced.
    pub fn sync_tree(&self) -> Result<(), FsError> {
        let root = WorkspacePath::root();
        let failed = |errno| errno::error("sync", &root, errno);
        let directory = reopen(self.root.fd(), OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        match syncfs(&directory) {
            Err(Errno::PERM | Errno::NOSYS) => self.sync_entries(&root),
            synced => synced.map_err(failed),
        }
    }

    /// Like [`Self::sync_tree`], for a tree on a filesystem that other programs write to. Up to
    /// `most` entries are synced one by one, so that the call does not wait for other programs'
    /// data. A larger tree is synced by [`Self::sync_tree`].
    pub fn sync_small_tree(&self, most: usize) -> Result<(), FsError> {
        let (root, mut entries) = (WorkspacePath::root(), 0);
        let counted = self.walk_below(&root, &|_, _| true, &mut |_| {
            entries += 1;
            if entries > most { ControlFlow::Break(()) } else { ControlFlow::Continue(Walk::Continue) }
        });
        // The agent may have removed all permissions of a directory. Then only the whole filesystem
        // can be synced.
        match counted {
            Ok(()) if entries <= most => self.sync_entries(&root).or_else(|_| self.sync_tree()),
            _ => self.sync_tree(),
        }
    }

    pub(super) fn sync_entries(&self, root: &WorkspacePath) -> Result<(), FsError> {
        let mut failed = None;
        self.walk_below(root, &|_, _| true, &mut |walked| {
            let synced = match walked.kind {
                Kind::Directory => self.sync_directory(&walked.path),
                Kind::File => self.root.entry(&walked.path).and_then(|file| Durability::Synced.file(file.as_fd())),
                Kind::Symlink | Kind::Special => Ok(()),
            };
            match synced {
                // Another process removed the entry after it was listed.
                Ok(()) | Err(Errno::NOENT) => ControlFlow::Continue(Walk::Continue),
                Err(errno) => {
                    failed = Some(errno::error("sync", &walked.path, errno));
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or_else(|| self.sync_directory(root).map_err(|errno| errno::error("sync", root, errno)), Err)
    }

    fn sync_directory(&self, path: &WorkspacePath) -> Result<(), Errno> {
        Durability::Synced.directory(self.root.directory(path)?.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::{Filesystem, WriteMode};

    #[test]
    fn a_tree_is_synced_entry_by_entry_where_syncfs_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let mut files = DiskFs::open(home.path()).unwrap();
        for path in ["a", "d/b", "d/e/c"] {
            files.write(&path.parse().unwrap(), "text", WriteMode::Create, 0).unwrap();
        }
        files.symlink(&"link".parse().unwrap(), b"nowhere", 0).unwrap();
        files.sync_entries(&WorkspacePath::root()).unwrap();
        for most in [0, 100] {
            files.sync_small_tree(most).unwrap();
        }
    }
}
