//! Creates directories, links and names.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Stat as RawStat, Uid, chmodat, chownat, fstat, mkdirat, renameat,
    renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::beneath::{open_at, proc_path};
use super::open::Found;
use super::{DiskFs, Durability, errno};
use crate::error::FsError;
use crate::filesystem::entry::{Kind, Permission};
use crate::filesystem::resolve::LastLink;
use crate::path::WorkspacePath;

/// New parent directories. Dropping this removes them, unless they are kept.
pub(super) struct Made {
    directories: Vec<(OwnedFd, Vec<u8>)>,
}

impl Made {
    /// Syncs the entries of the directories, the innermost first, and keeps them if that succeeds.
    pub(super) fn keep(&mut self, durability: Durability) -> Result<(), Errno> {
        self.directories.iter().rev().try_for_each(|(parent, _)| durability.directory(parent.as_fd()))?;
        self.directories.clear();
        Ok(())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for (parent, name) in self.directories.drain(..).rev() {
            // A directory that is used meanwhile is not empty and stays.
            let _ = unlinkat(&parent, OsStr::from_bytes(&name), AtFlags::REMOVEDIR);
        }
    }
}

impl DiskFs {
    /// Opens a directory at a path without links, and creates it and its parents if missing.
    pub(super) fn open_made(&self, path: &WorkspacePath) -> Result<(OwnedFd, Made), FsError> {
        self.stop.check()?;
        let mut made = Made { directories: Vec::new() };
        let mut missing: Vec<&[u8]> = Vec::new();
        let mut existing = path.clone();
        let mut directory = loop {
            match self.root.directory(&existing) {
                Ok(fd) => break fd,
                Err(Errno::NOENT) => {
                    let parent = existing.parent().ok_or_else(|| FsError::NotFound { path: path.clone() })?;
                    missing.extend(path.segments().nth(existing.depth() - 1));
                    existing = parent;
                }
                Err(Errno::NOTDIR) => return Err(self.not_directory(&existing)),
                Err(other) => return Err(errno::error("open", path, other)),
            }
        };
        for name in missing.into_iter().rev() {
            let next = make_directory(directory.as_fd(), name, &mut made);
            directory = next.map_err(|errno| errno::error("make the directory", path, errno))?;
        }
        Ok((directory, made))
    }

    /// Finds the part of the path that is not a directory.
    fn not_directory(&self, path: &WorkspacePath) -> FsError {
        let mut at = WorkspacePath::root();
        for segment in path.segments() {
            at = at.joined(segment);
            if matches!(self.root.directory(&at), Err(Errno::NOTDIR)) {
                break;
            }
        }
        FsError::NotDirectory { path: at }
    }

    pub(super) fn make(&self, path: &WorkspacePath) -> Result<(), FsError> {
        let (at, found) = self.look_up(path, LastLink::Followed)?;
        match found.map(|found| found.kind()) {
            Some(Kind::Directory) => Ok(()),
            Some(_) => Err(FsError::Exists { path: at }),
            None => {
                let kept = self.open_made(&at)?.1.keep(self.durability);
                kept.map_err(|errno| errno::error("sync", &at, errno))
            }
        }
    }

    pub(super) fn make_link(&self, path: &WorkspacePath, target: &[u8]) -> Result<(), FsError> {
        let (at, found) = self.look_up(path, LastLink::Kept)?;
        let (parent, name) = split(&at)?;
        if found.is_some() {
            return Err(FsError::Exists { path: at });
        }
        let (directory, mut made) = self.open_made(&parent)?;
        symlinkat(OsStr::from_bytes(target), &directory, OsStr::from_bytes(name))
            .map_err(|errno| errno::error("make the link", &at, errno))?;
        let synced = self.durability.directory(directory.as_fd());
        synced.and(made.keep(self.durability)).map_err(|errno| errno::error("sync", &at, errno))
    }

    pub(super) fn move_entry(&self, from: &WorkspacePath, to: &WorkspacePath) -> Result<(), FsError> {
        let (found, to) = self.placed(from, to)?;
        let (from_parent, from_name) = split(&found.path)?;
        let (to_parent, to_name) = split(&to)?;
        let source = self.root.directory(&from_parent).map_err(|errno| errno::error("open", from, errno))?;
        let (target, mut made) = self.open_made(&to_parent)?;
        let (from_name, to_name) = (OsStr::from_bytes(from_name), OsStr::from_bytes(to_name));
        match rename_new(source.as_fd(), from_name, target.as_fd(), to_name) {
            // An overlay cannot rename a directory that has a part in a layer, and no filesystem
            // renames across mounts.
            Err(Errno::XDEV) => {
                drop(made);
                return self.move_by_copy(&found, &to);
            }
            renamed => renamed.map_err(|errno| errno::error("rename", &to, errno))?,
        }
        // Sync the new name first: between the two syncs the entry has both names, never none.
        let synced = self.durability.directory(target.as_fd()).and(made.keep(self.durability));
        let synced = synced.and_then(|()| self.durability.directory(source.as_fd()));
        synced.map_err(|errno| errno::error("sync", &to, errno))
    }

    /// Finds an entry and checks that it can also have the name `to`, which it returns resolved.
    pub(super) fn placed(&self, from: &WorkspacePath, to: &WorkspacePath) -> Result<(Found, WorkspacePath), FsError> {
        let found = self.find(from, LastLink::Kept)?;
        let (to, taken) = self.look_up(to, LastLink::Kept)?;
        if found.path.is_root() || to.is_root() {
            return Err(FsError::Root);
        }
        if found.kind() == Kind::Directory && to.is_within(&found.path) {
            return Err(FsError::IntoItself { from: found.path, to });
        }
        if taken.is_some() {
            return Err(FsError::Exists { path: to });
        }
        Ok((found, to))
    }

    pub(super) fn permit(&self, path: &WorkspacePath, permission: Permission) -> Result<(), FsError> {
        let found = self.find(path, LastLink::Followed)?;
        match found.kind() {
            Kind::File => {}
            Kind::Directory => return Err(FsError::IsDirectory { path: path.clone() }),
            Kind::Symlink | Kind::Special => return Err(FsError::Special { path: path.clone() }),
        }
        let bits = found.raw.st_mode & 0o777;
        let bits = match permission {
            // Add the execute bit for every class that may read.
            Permission::Executable => bits | (bits & 0o444) >> 2 | 0o100,
            Permission::Plain => bits & !0o111,
        };
        set_bits(&found, bits)?;
        self.durability.file(found.fd.as_fd()).map_err(|errno| errno::error("sync", path, errno))
    }
}

/// Renames an entry to a name that must be free.
pub(super) fn rename_new(from: BorrowedFd<'_>, old: &OsStr, to: BorrowedFd<'_>, new: &OsStr) -> Result<(), Errno> {
    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        // The filesystem lacks that flag. The name was free a moment ago, so accept the race.
        Err(Errno::INVAL | Errno::NOSYS) => renameat(from, old, to, new),
        other => other,
    }
}

/// Sets the mode of exactly the entry that was found.
pub(super) fn set_bits(found: &Found, bits: u32) -> Result<(), FsError> {
    chmodat(CWD, proc_path(found.fd.as_fd()), Mode::from_raw_mode(bits), AtFlags::empty())
        .map_err(|errno| errno::error("change the mode of", &found.path, errno))
}

/// Creates and opens one directory. Accepts one that another process created meanwhile.
fn make_directory(parent: BorrowedFd<'_>, name: &[u8], made: &mut Made) -> Result<OwnedFd, Errno> {
    let fresh = match mkdirat(parent, OsStr::from_bytes(name), Mode::from_raw_mode(0o755)) {
        Ok(()) => {
            made.directories.push((parent.try_clone_to_owned().map_err(|_| Errno::MFILE)?, name.to_vec()));
            true
        }
        Err(Errno::EXIST) => false,
        Err(other) => return Err(other),
    };
    let directory = open_at(parent, name, OFlags::PATH | OFlags::DIRECTORY)?;
    if fresh {
        inherit_owner(directory.as_fd(), &fstat(parent)?);
    }
    Ok(directory)
}

/// Gives a new entry to the owner of its parent directory, if that is another user and it is
/// permitted. A server that runs as root must not leave files that its box cannot change.
pub(super) fn inherit_owner(fd: BorrowedFd<'_>, owner: &RawStat) {
    let Ok(own) = fstat(fd) else { return };
    if (own.st_uid, own.st_gid) != (owner.st_uid, owner.st_gid) {
        let (uid, gid) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
        // A server without root is normally not permitted to do this.
        let _ = chownat(CWD, proc_path(fd), Some(uid), Some(gid), AtFlags::empty());
    }
}

pub(super) fn split(path: &WorkspacePath) -> Result<(WorkspacePath, &[u8]), FsError> {
    path.parent().zip(path.name()).ok_or(FsError::Root)
}
