//! Opening things beneath the root, with no link on the way.
//!
//! Everything the disk backend opens comes through [`Root::open`].

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;

use crate::path::WorkspacePath;

/// What the kernel takes in one piece (`PATH_MAX` is 4096 with the final NUL).
const PIECE: usize = 4_000;
/// The number of attempts for a resolution that raced with a rename.
const RETRIES: usize = 16;
/// An open waits this long for the holder of a lease. The kernel ends a lease after 45 s, unless the host says otherwise.
const LEASE_WAIT: Duration = Duration::from_secs(50);
const LEASE_LOOK: Duration = Duration::from_millis(20);

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

/// For kernels without `openat2`, such as gVisor's: one name at a time, each from the directory before it and none through a link. A name that is
/// swapped for a link meanwhile is an error here too.
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
            // What `openat2` says of a link where a directory is wanted.
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

/// Opens until it succeeds or fails for good. A file that another process has a lease on is refused with `AGAIN` as long as
/// the lease lasts, because opens here do not block.
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

/// Opens again, for use, what was opened with `O_PATH`: the same inode, whatever its name leads to by now.
pub(super) fn reopen(fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = proc_path(fd);
    again(|| openat(CWD, path.as_str(), flags | OFlags::CLOEXEC, Mode::empty()))
}

/// The name of a descriptor, for calls that take only names.
pub(super) fn proc_path(fd: BorrowedFd<'_>) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

pub(super) fn open_host_directory(path: &Path) -> std::io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}
