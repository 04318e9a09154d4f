//! Opens entries beneath the root without following links.
//!
//! Everything that the disk backend opens goes through [`Root::open`].

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;

use crate::path::WorkspacePath;

/// Maximum path length per call (`PATH_MAX` is 4096 with the final NUL).
const PIECE: usize = 4_000;
/// Number of attempts for a resolution that races with a rename.
const RETRIES: usize = 16;
/// Timeout for an open while another process holds a lease. By default the kernel breaks a lease
/// after 45 s.
const LEASE_WAIT: Duration = Duration::from_secs(50);
const LEASE_LOOK: Duration = Duration::from_millis(20);

/// Stay beneath the directory, and follow neither symlinks nor `/proc/…/fd` links.
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

    /// Opens the entry. By type the path contains no `..`. The kernel refuses every link, including
    /// the last segment, unless `flags` contain `PATH|NOFOLLOW`, which opens the link itself.
    pub(super) fn open(&self, path: &WorkspacePath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let bytes = path.as_bytes();
        if bytes.len() <= PIECE {
            return open_at(self.fd(), bytes, flags);
        }
        // Too long for one call: descend in pieces, each beneath the previous one.
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

    /// Opens a directory for operations on its entries.
    pub(super) fn directory(&self, path: &WorkspacePath) -> Result<OwnedFd, Errno> {
        self.open(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Opens the entry itself with `O_PATH`, even if it is a link.
    pub(super) fn entry(&self, path: &WorkspacePath) -> Result<OwnedFd, Errno> {
        self.open(path, OFlags::PATH | OFlags::NOFOLLOW)
    }
}

/// Replaces `openat2` on kernels without it, such as gVisor's. Opens one name at a time from the
/// previous directory and follows no link. Replacing a name by a link meanwhile causes an error
/// here too.
fn descend(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
    let mut at: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        if name == b".." {
            return Err(Errno::XDEV);
        }
        let from = at.as_ref().map_or(directory, AsFd::as_fd);
        let how = match names.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            None => flags | OFlags::NOFOLLOW,
        };
        let opened = openat(from, OsStr::from_bytes(name), how, Mode::empty()).map_err(|errno| match errno {
            // `openat2` returns this error for a link where a directory is expected.
            Errno::NOTDIR if is_link(from, name) => Errno::LOOP,
            errno => errno,
        });
        at = Some(opened?);
    }
    at.map_or_else(|| openat(directory, ".", flags | OFlags::NOFOLLOW, Mode::empty()), Ok)
}

fn is_link(directory: BorrowedFd<'_>, name: &[u8]) -> bool {
    let found = statat(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
}

/// [`Root::open`] from a directory that is itself beneath the root.
pub(super) fn open_at(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(path) };
    let flags = flags | OFlags::CLOEXEC;
    again(|| match openat2(directory, path, flags, Mode::empty(), CONFINED) {
        Err(Errno::NOSYS) => descend(directory, path.as_bytes(), flags),
        opened => opened,
    })
}

/// Retries an open until it succeeds or fails permanently. While another process holds a lease on
/// the file, a non-blocking open fails with `AGAIN`.
fn again(mut open: impl FnMut() -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let mut tries = 0;
    let mut deadline = None;
    loop {
        match open() {
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
        tries += 1;
        if tries < RETRIES {
            continue;
        }
        if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + LEASE_WAIT) {
            return Err(Errno::AGAIN);
        }
        std::thread::sleep(LEASE_LOOK);
    }
}

/// Reopens an `O_PATH` descriptor for use: the same inode, whatever its name refers to now.
pub(super) fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = proc_path(fd);
    again(|| openat(CWD, path.as_str(), flags | OFlags::CLOEXEC, Mode::empty()))
}

/// A path for a descriptor, for system calls that take only paths.
pub(super) fn proc_path(fd: BorrowedFd<'_>) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

pub(super) fn open_host_directory(path: &Path) -> std::io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}
