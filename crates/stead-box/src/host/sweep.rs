//! Removes a directory that hostile programs have filled.
//!
//! It never follows a path: it only uses descriptors and single names below the directory, with a
//! fixed number of open files at any depth. It first moves a directory that lies too deep upward.
//! No other process may work in the tree.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, IFlags, Mode, OFlags, chmodat, ioctl_getflags, ioctl_setflags, openat, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;

/// Maximum number of directories open at once.
const DEEPEST: usize = 32;

/// Removes a directory and its content. Succeeds if it does not exist.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let top = match open_directory(CWD, path) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    empty(&top)?;
    match unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

/// Removes a subdirectory and its content. Succeeds if it does not exist.
pub(crate) fn remove_tree_at(above: &OwnedFd, name: &str) -> io::Result<()> {
    match open_directory(above, name) {
        Err(Errno::NOENT) => return Ok(()),
        opened => empty(&opened?)?,
    }
    Ok(unlinkat(above, name, AtFlags::REMOVEDIR)?)
}

fn open_directory(at: impl std::os::fd::AsFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// A directory on the path: its remaining entries, and its name in the parent.
struct Level {
    directory: OwnedFd,
    names: Vec<(CString, FileType)>,
    name: CString,
}

fn empty(top: &OwnedFd) -> io::Result<()> {
    let mut moved = 0u64;
    loop {
        let mut names = names(top)?;
        if names.is_empty() {
            return Ok(());
        }
        while let Some((name, kind)) = names.pop() {
            if kind == FileType::Directory {
                remove_directory(top, name, &mut moved)?;
            } else {
                unlink(top, &name)?;
            }
        }
    }
}

/// Removes one directory of `top`. Directories that lie too deep are moved to `top`, for the next
/// round.
fn remove_directory(top: &OwnedFd, name: CString, moved: &mut u64) -> io::Result<()> {
    let mut path = vec![descend(top, name)?];
    while let Some(depth) = path.len().checked_sub(1) {
        let level = &mut path[depth];
        match level.names.pop() {
            None => {
                let Some(Level { name, directory, .. }) = path.pop() else { return Ok(()) };
                drop(directory);
                let above = path.last().map_or(top, |level| &level.directory);
                remove_empty(above, &name)?;
            }
            Some((name, FileType::Directory)) if path.len() >= DEEPEST => {
                let level = &path[depth];
                *moved += 1;
                let new = CString::new(format!(".stead-removing-{moved}")).map_err(io::Error::other)?;
                make_writable(&level.directory, &name);
                retry_unlocked(&level.directory, || renameat(&level.directory, &name, top, &new))?;
            }
            Some((name, FileType::Directory)) => {
                let next = descend(&path[depth].directory, name)?;
                path.push(next);
            }
            Some((name, _)) => unlink(&path[depth].directory, &name)?,
        }
    }
    Ok(())
}

fn descend(above: &OwnedFd, name: CString) -> io::Result<Level> {
    let directory = match open_directory(above, name.as_c_str()) {
        Err(Errno::ACCESS) => {
            make_writable(above, &name);
            open_directory(above, name.as_c_str())?
        }
        opened => opened?,
    };
    // An owner other than root needs these permissions to empty the directory.
    let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
    Ok(Level { names: names(&directory)?, directory, name })
}

fn make_writable(above: &OwnedFd, name: &CStr) {
    let is_directory = statat(above, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory);
    if is_directory {
        let _ = chmodat(above, name, Mode::RWXU, AtFlags::empty());
    }
}

fn names(directory: &OwnedFd) -> io::Result<Vec<(CString, FileType)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => FileType::from_raw_mode(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode),
            kind => kind,
        };
        names.push((name.to_owned(), kind));
    }
    Ok(names)
}

fn unlink(directory: &OwnedFd, name: &CStr) -> io::Result<()> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::PERM) => {
            unlock(directory, name);
            retry_unlocked(directory, || unlinkat(directory, name, AtFlags::empty()))
        }
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

fn remove_empty(above: &OwnedFd, name: &CStr) -> io::Result<()> {
    match unlinkat(above, name, AtFlags::REMOVEDIR) {
        Err(Errno::PERM) => {
            unlock(above, name);
            retry_unlocked(above, || unlinkat(above, name, AtFlags::REMOVEDIR))
        }
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

/// Clears the flags of an entry that prevent even root from removing it, if the entry can be
/// opened.
fn unlock(directory: &OwnedFd, name: &CStr) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if let Ok(entry) = openat(directory, name, flags, Mode::empty()) {
        unlock_open(&entry);
    }
}

fn unlock_open(entry: &OwnedFd) {
    if let Ok(flags) = ioctl_getflags(entry) {
        let _ = ioctl_setflags(entry, flags - (IFlags::IMMUTABLE | IFlags::APPEND));
    }
}

/// Tries once, and again after clearing these flags of the directory itself.
fn retry_unlocked(directory: &OwnedFd, act: impl Fn() -> Result<(), Errno>) -> io::Result<()> {
    match act() {
        Err(Errno::PERM) => {
            unlock_open(directory);
            Ok(act()?)
        }
        done => Ok(done?),
    }
}
