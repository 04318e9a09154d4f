//! Copies entries.
//!
//! A directory is copied into a temporary directory next to its new name, which then gets the name.
//! So readers see the whole copy or none, and a copy that fails leaves nothing. A copier that is
//! killed leaves its temporary directory; the next copy into the same directory removes it.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Mode, OFlags, mkdirat};
use rustix::io::Errno;

use super::beneath::reopen;
use super::create::{inherit_owner, rename_new, set_bits, split};
use super::open::{Found, link_target, reopen_file};
use super::temporary::{is_leftover, next_name};
use super::walk::for_each_name;
use super::write::Times;
use super::{DiskFs, Durability, errno};
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::resolve::LastLink;
use crate::filesystem::{Recursion, Walk, Walked, WriteMode};
use crate::path::WorkspacePath;

/// A larger copy is synced with its whole filesystem, which costs less than an `fsync` per file.
const SYNCED_SINGLY: u64 = 1_000;
/// Maximum number of names that are tried for a temporary directory.
const MAX_NAMES: usize = 10_000;

/// Makes a temporary directory and returns its name. Names are taken if a process with the same
/// number uses the directory in another process namespace, or left files there.
fn make_temporary(directory: BorrowedFd<'_>) -> Result<String, Errno> {
    for _ in 0..MAX_NAMES {
        let name = next_name();
        match mkdirat(directory, name.as_str(), Mode::RWXU) {
            Ok(()) => return Ok(name),
            Err(Errno::EXIST) => {}
            Err(other) => return Err(other),
        }
    }
    Err(Errno::EXIST)
}

impl DiskFs {
    pub(super) fn copy_entry(&self, from: &WorkspacePath, to: &WorkspacePath) -> Result<u64, FsError> {
        let (found, to) = self.placed(from, to)?;
        self.copy_found(&found, &to, Times::New)
    }

    /// Moves an entry that the kernel cannot rename: copies it and removes the original. If the
    /// removal fails half way, the copy stays, so that nothing is lost.
    pub(super) fn move_by_copy(&self, found: &Found, to: &WorkspacePath) -> Result<(), FsError> {
        self.check_emptiable(&split(&found.path)?.0)?;
        if found.kind() == Kind::Directory {
            self.survey(&found.path)?;
        }
        self.copy_found(found, to, Times::Kept)?;
        self.remove(&found.path, Recursion::Recursive).map(drop)
    }

    fn copy_found(&self, found: &Found, to: &WorkspacePath, times: Times) -> Result<u64, FsError> {
        match found.kind() {
            Kind::File => self.copy_file(found, to, times)?,
            Kind::Symlink => self.make_link(to, &link_target(found)?)?,
            Kind::Special => return Err(FsError::Special { path: found.path.clone() }),
            Kind::Directory => return self.copy_directory(found, to, times),
        }
        Ok(1)
    }

    fn copy_file(&self, found: &Found, to: &WorkspacePath, times: Times) -> Result<(), FsError> {
        let mut file = reopen_file(found, &found.path)?;
        let writer = self.begin_write(to, WriteMode::Create)?;
        writer.fill_from(&mut file, &found.raw, times)?.commit().map(drop)
    }

    fn copy_directory(&self, found: &Found, to: &WorkspacePath, times: Times) -> Result<u64, FsError> {
        // List the entries before the first one is made. A link could otherwise lead the copy into
        // itself.
        let entries = self.copyable(&found.path)?;
        let (parent, name) = split(to)?;
        let (directory, mut made) = self.open_made(&parent)?;
        self.remove_leftovers(&parent, directory.as_fd())?;
        let failed = |errno| errno::error("copy", to, errno);
        let temporary = make_temporary(directory.as_fd()).map_err(failed)?;
        let at = parent.joined(temporary.as_bytes());
        let copied = self.fill_copy(&found.path, &at, &entries, times).and_then(|()| {
            let renamed =
                rename_new(directory.as_fd(), OsStr::new(&temporary), directory.as_fd(), OsStr::from_bytes(name));
            renamed.map_err(failed)
        });
        if let Err(error) = copied {
            self.discard(&at);
            return Err(error);
        }
        // The mode of the top comes last: without write permission a directory cannot be renamed.
        if let Err(error) = self.copy_bits(&found.path, to) {
            self.discard(to);
            return Err(error);
        }
        let synced = self.durability.directory(directory.as_fd()).and_then(|()| made.keep(self.durability));
        if let Err(errno) = synced {
            self.discard(to);
            return Err(errno::error("sync", to, errno));
        }
        Ok(entries.len() as u64 + 1)
    }

    /// Lists everything below a directory, in the order of a walk. Refuses special files.
    fn copyable(&self, from: &WorkspacePath) -> Result<Vec<Walked>, FsError> {
        let (mut entries, mut special) = (Vec::new(), None);
        self.walk_below(from, &|_, _| true, &mut |walked| {
            if walked.kind == Kind::Special {
                special = Some(walked.path.clone());
                return ControlFlow::Break(());
            }
            entries.push(walked.clone());
            ControlFlow::Continue(Walk::Continue)
        })?;
        special.map_or(Ok(entries), |path| Err(FsError::Special { path }))
    }

    /// Copies the entries below `from` to the directory `to`, and syncs them.
    fn fill_copy(
        &self,
        from: &WorkspacePath,
        to: &WorkspacePath,
        entries: &[Walked],
        times: Times,
    ) -> Result<(), FsError> {
        let unsynced = self.clone().with_durability(Durability::Kernel);
        let top = self.find(to, LastLink::Kept)?;
        let parent = self.find(&split(to)?.0, LastLink::Kept)?;
        inherit_owner(top.fd.as_fd(), &parent.raw);
        let moved = |path: &WorkspacePath| path.below(from).map_or_else(|| to.clone(), |below| to.descend(&below));
        for entry in entries {
            self.stop.check()?;
            let target = moved(&entry.path);
            if entry.kind == Kind::Directory {
                unsynced.make(&target)?;
            } else {
                unsynced.copy_found(&self.find(&entry.path, LastLink::Kept)?, &target, times)?;
            }
        }
        // From the inside out: the final mode of a directory may forbid writing.
        for entry in entries.iter().rev().filter(|entry| entry.kind == Kind::Directory) {
            self.copy_bits(&entry.path, &moved(&entry.path))?;
        }
        match self.durability {
            Durability::Kernel => Ok(()),
            Durability::Synced if entries.len() as u64 > SYNCED_SINGLY => self.sync_tree(),
            // The mode of a directory may forbid opening it, and then only the whole can be synced.
            Durability::Synced => self.sync_entries(to).or_else(|_| self.sync_tree()),
        }
    }

    fn copy_bits(&self, from: &WorkspacePath, to: &WorkspacePath) -> Result<(), FsError> {
        let bits = self.find(from, LastLink::Kept)?.raw.st_mode & 0o777;
        set_bits(&self.find(to, LastLink::Kept)?, bits)
    }

    /// Removes an unfinished copy. The copied modes may forbid that, so they are reset first.
    fn discard(&self, copy: &WorkspacePath) {
        // Ignore failures: the original error is reported.
        let open = |path: &WorkspacePath| {
            let _ = self.find(path, LastLink::Kept).and_then(|found| set_bits(&found, 0o700));
        };
        open(copy);
        let _ = self.walk_below(copy, &|_, kind| kind == Kind::Directory, &mut |walked| {
            open(&walked.path);
            ControlFlow::Continue(Walk::IfReadable)
        });
        let _ = self.remove(copy, Recursion::Recursive);
    }

    /// Removes the temporary directories that killed copiers left in a directory.
    fn remove_leftovers(&self, parent: &WorkspacePath, directory: BorrowedFd<'_>) -> Result<(), FsError> {
        let listed = match reopen(directory, OFlags::RDONLY | OFlags::DIRECTORY) {
            // A directory that cannot be listed keeps them.
            Err(Errno::ACCESS | Errno::PERM) => return Ok(()),
            listed => listed.map_err(|errno| errno::error("list", parent, errno))?,
        };
        let mut leftovers = Vec::new();
        for_each_name(listed.as_fd(), |name, file_type| {
            if file_type == FileType::Directory && is_leftover(name) {
                leftovers.push(parent.joined(name));
            }
        })
        .map_err(|errno| errno::error("list", parent, errno))?;
        leftovers.iter().for_each(|leftover| self.discard(leftover));
        Ok(())
    }
}
