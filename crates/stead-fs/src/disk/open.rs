//! Finds entries and opens files.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, OFlags, Stat as RawStat, fstat, readlinkat};
use rustix::io::Errno;

use super::beneath::reopen;
use super::{DiskFs, errno};
use crate::error::FsError;
use crate::filesystem::entry::{Kind, Permission, Stat};
use crate::filesystem::resolve::{LastLink, Step, resolve};
use crate::path::WorkspacePath;

/// Flags for a regular file that may have been replaced: do not block, and do not acquire a
/// controlling terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A found entry: its resolved path and an `O_PATH` descriptor.
pub(super) struct Found {
    pub(super) path: WorkspacePath,
    pub(super) fd: OwnedFd,
    pub(super) raw: RawStat,
}

impl Found {
    pub(super) fn kind(&self) -> Kind {
        kind(&self.raw)
    }
}

impl DiskFs {
    /// Resolves a path and finds its entry, if it exists.
    pub(super) fn look_up(
        &self,
        path: &WorkspacePath,
        last: LastLink,
    ) -> Result<(WorkspacePath, Option<Found>), FsError> {
        let mut at = path.clone();
        match self.entry(path) {
            Ok(found) if found.kind() != Kind::Symlink || last == LastLink::Kept => return Ok((at, Some(found))),
            // The path has a link or a part that is not a directory. Resolve it step by step, to
            // follow the link or to name the part.
            Ok(_) | Err(Errno::LOOP | Errno::NOTDIR) => at = resolve(path, last, |path| self.step(path))?,
            Err(Errno::NOENT) => return Ok((at, None)),
            Err(other) => return Err(errno::error("open", path, other)),
        }
        match self.entry(&at) {
            Ok(found) if found.kind() == Kind::Symlink && last == LastLink::Followed => {
                Err(FsError::LinkLoop { path: path.clone() })
            }
            Ok(found) => Ok((at, Some(found))),
            Err(Errno::NOENT) => Ok((at, None)),
            Err(other) => Err(errno::error("open", path, other)),
        }
    }

    pub(super) fn find(&self, path: &WorkspacePath, last: LastLink) -> Result<Found, FsError> {
        self.look_up(path, last)?.1.ok_or_else(|| FsError::NotFound { path: path.clone() })
    }

    fn entry(&self, path: &WorkspacePath) -> Result<Found, Errno> {
        let fd = self.root.entry(path)?;
        let raw = fstat(&fd)?;
        Ok(Found { path: path.clone(), fd, raw })
    }

    fn step(&self, path: &WorkspacePath) -> Result<Step, FsError> {
        let found = match self.entry(path) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(Step::Missing),
            Err(other) => return Err(errno::error("open", path, other)),
        };
        match found.kind() {
            Kind::Directory => Ok(Step::Directory),
            Kind::Symlink => link_target(&found).map(Step::Link),
            Kind::File | Kind::Special => Ok(Step::Other),
        }
    }

    /// Opens a file for reading and returns its size.
    pub(super) fn open_file(&self, path: &WorkspacePath) -> Result<(File, u64), FsError> {
        let found = self.find(path, LastLink::Followed)?;
        let file = reopen_file(&found, path)?;
        Ok((file, size(&found.raw)))
    }

    /// Opens a regular file at a path without links, in one call. Checks its kind before it is
    /// read.
    pub(super) fn open_plain(&self, path: &WorkspacePath) -> Result<(File, u64), FsError> {
        let failed = |errno| errno::error("open", path, errno);
        let fd = self.root.open(path, READ | OFlags::NOFOLLOW).map_err(failed)?;
        let raw = fstat(&fd).map_err(failed)?;
        match kind(&raw) {
            Kind::File => Ok((File::from(fd), size(&raw))),
            Kind::Directory => Err(FsError::IsDirectory { path: path.clone() }),
            Kind::Symlink | Kind::Special => Err(FsError::Special { path: path.clone() }),
        }
    }
}

/// Opens the found file for reading. Refuses anything but a regular file without opening it.
pub(super) fn reopen_file(found: &Found, asked: &WorkspacePath) -> Result<File, FsError> {
    match found.kind() {
        Kind::File => {}
        Kind::Directory => return Err(FsError::IsDirectory { path: asked.clone() }),
        Kind::Symlink | Kind::Special => return Err(FsError::Special { path: asked.clone() }),
    }
    let fd = reopen(found.fd.as_fd(), READ).map_err(|errno| match errno {
        Errno::NOENT => FsError::Io {
            action: "open (is /proc mounted?)",
            path: asked.clone(),
            source: std::io::ErrorKind::NotFound.into(),
        },
        other => errno::error("open", asked, other),
    })?;
    Ok(File::from(fd))
}

pub(super) fn link_target(found: &Found) -> Result<Vec<u8>, FsError> {
    let target =
        readlinkat(&found.fd, "", Vec::new()).map_err(|errno| errno::error("read the link", &found.path, errno))?;
    Ok(target.into_bytes())
}

pub(super) fn kind(raw: &RawStat) -> Kind {
    kind_of(FileType::from_raw_mode(raw.st_mode))
}

pub(super) const fn kind_of(file_type: FileType) -> Kind {
    match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Symlink,
        _ => Kind::Special,
    }
}

pub(super) fn size(raw: &RawStat) -> u64 {
    u64::try_from(raw.st_size).unwrap_or(0)
}

pub(super) const fn permission(raw: &RawStat) -> Permission {
    if raw.st_mode & 0o100 == 0 { Permission::Plain } else { Permission::Executable }
}

pub(super) fn stat(raw: &RawStat) -> Stat {
    let kind = kind(raw);
    let millis = i64::try_from(raw.st_mtime_nsec / 1_000_000).unwrap_or(0);
    Stat {
        kind,
        size: if matches!(kind, Kind::File | Kind::Symlink) { size(raw) } else { 0 },
        permission: if kind == Kind::File { permission(raw) } else { Permission::Plain },
        mode: raw.st_mode & 0o7777,
        version: None,
        created_at_millis: None,
        updated_at_millis: raw.st_mtime.saturating_mul(1_000).saturating_add(millis),
    }
}
