//! Opening things beneath the root, with no link on the way.
//!
//! Everything the disk backend opens comes through [`Root::open`].

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::path::WorkspacePath;

/// What the kernel takes in one piece (`PATH_MAX` is 4096 with the final NUL).
const PIECE: usize = 4_000;
/// How often a resolution that raced with a rename is asked again.
const RETRIES: usize = 16;

/// Beneath, through no link and no `/proc/…/fd` link.
const CONFINED: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

#[derive(Debug)]
pub(super) struct Root {
    fd: OwnedFd,
}

impl Root {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens the entry. The path holds no `..` by type; the kernel forbids every link, the last segment's too unless
    /// `flags` say `PATH|NOFOLLOW`, which opens the link itself.
    pub(super) fn open(&self, path: &WorkspacePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let bytes = path.as_bytes();
        if bytes.len() <= PIECE {
            return open_at(self.fd(), bytes, flags);
        }
        // Too long for one call: descend piece by piece, each beneath the one before.
        let mut directory: Option<OwnedFd> = None;
        let mut rest = bytes;
        while rest.len() > PIECE {
            let cut = memchr::memrchr(b'/', &rest[..PIECE]).ok_or(Errno::NAMETOOLONG)?;
            let at = directory.as_ref().map_or(self.fd(), AsFd::as_fd);
            directory = Some(open_at(at, &rest[..cut], OFlags::PATH | OFlags::DIRECTORY)?);
            rest = &rest[cut + 1..];
        }
        open_at(directory.as_ref().map_or(self.fd(), AsFd::as_fd), rest, flags)
    }

    /// The directory, to do things in it by name.
    pub(super) fn directory(&self, path: &WorkspacePath) -> Result<OwnedFd, Errno> {
        self.open(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// The entry itself, link or not, without opening what it is.
    pub(super) fn entry(&self, path: &WorkspacePath) -> Result<OwnedFd, Errno> {
        self.open(path, OFlags::PATH | OFlags::NOFOLLOW)
    }
}

/// [`Root::open`] from a directory that is itself beneath the root.
pub(super) fn open_at(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(path) };
    let flags = flags | OFlags::CLOEXEC;
    for _ in 0..RETRIES {
        match openat2(directory, path, flags, Mode::empty(), CONFINED) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens again, for use, what was opened with `O_PATH`: the same inode, whatever its name leads to by now.
pub(super) fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(CWD, proc_path(fd), flags | OFlags::CLOEXEC, Mode::empty())
}

/// The name of a descriptor, for calls that take only names.
pub(super) fn proc_path(fd: BorrowedFd<'_>) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

pub(super) fn open_host_directory(path: &Path) -> std::io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}
