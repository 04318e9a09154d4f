//! Writes files: the bytes go to a file without a name, which then gets its name atomically.
//!
//! Readers see the old file or the new one. Mode bits and owner of an old file are kept; setuid and
//! setgid are not. A process that dies while it writes leaves no file behind, unless the file
//! system lacks `O_TMPFILE`; see [`super::temporary`].

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek as _, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    Mode, Stat as RawStat, Timespec, Timestamps, fchmod, fstat, fsync, ftruncate, futimens, ioctl_ficlone,
};
use stead_core::content_hash::Hasher;

use super::create::{Made, inherit_owner, split};
use super::open::{Found, reopen_file, size};
use super::temporary::Temporary;
use super::{DiskFs, Durability, errno};

use crate::error::FsError;
use crate::filesystem::entry::{Kind, Written};
use crate::filesystem::resolve::LastLink;
use crate::filesystem::stop::Stop;
use crate::filesystem::{FileWriter, Part, Parts, WriteMode};
use crate::path::WorkspacePath;
use crate::sparse::FileParts;
use crate::sparse::hash_file::{MOST_HASHED_HOLES, has_large_holes};

/// Minimum number of zero bytes in one write that become a hole.
const BLOCK: usize = 4096;

/// A writer to a file on disk. It owns its descriptors, so it can outlive the filesystem and move
/// to another thread.
pub struct DiskWriter {
    path: WorkspacePath,
    mode: WriteMode,
    durability: Durability,
    directory: OwnedFd,
    name: Vec<u8>,
    file: File,
    temporary: Temporary,
    made: Made,
    bits: u32,
    hasher: Hasher,
    bytes: u64,
    /// Length of the file, including the content that was there before an append.
    length: u64,
    stop: Stop,
}

/// The modification time of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    /// The original's.
    Kept,
    /// The time of the copying.
    New,
}

impl DiskFs {
    /// Like [`Filesystem::open_write`](crate::Filesystem::open_write), without borrowing the
    /// filesystem.
    pub fn begin_write(&self, path: &WorkspacePath, mode: WriteMode) -> Result<DiskWriter, FsError> {
        let (at, old) = self.look_up(path, LastLink::Followed)?;
        let (parent, name) = split(&at)?;
        match old.as_ref().map(Found::kind) {
            Some(Kind::Directory) => return Err(FsError::IsDirectory { path: at }),
            Some(Kind::Symlink | Kind::Special) => return Err(FsError::Special { path: at }),
            Some(Kind::File) if mode == WriteMode::Create => return Err(FsError::Exists { path: at }),
            Some(Kind::File) | None => {}
        }
        let name = name.to_vec();
        let (directory, made) = self.open_made(&parent)?;
        let failed = |errno| errno::error("write", &at, errno);
        let (file, temporary) = Temporary::make(&directory).map_err(failed)?;
        let owner = match &old {
            Some(old) => old.raw,
            None => fstat(&directory).map_err(failed)?,
        };
        inherit_owner(file.as_fd(), &owner);
        let bits = old.as_ref().map_or(0o644, |old| old.raw.st_mode & 0o777);
        let durability = self.durability;
        let (hasher, bytes, length) = (Hasher::default(), 0, 0);
        let mut writer = DiskWriter {
            path: at,
            mode,
            durability,
            directory,
            name,
            file,
            temporary,
            made,
            bits,
            hasher,
            bytes,
            length,
            stop: self.stop.clone(),
        };
        if let (WriteMode::Append, Some(old)) = (mode, &old) {
            writer.copy_from(reopen_file(old, path)?, old.raw.st_size.unsigned_abs())?;
            writer.bytes = 0;
        }
        Ok(writer)
    }
}

impl DiskWriter {
    /// Copies the file that is appended to. Refuses one with large holes, because its zeros would
    /// be hashed.
    fn copy_from(&mut self, mut old: File, size: u64) -> Result<(), FsError> {
        let failed = |source| errno::io("read", &self.path, source);
        if has_large_holes(&mut old, size).map_err(failed)? {
            return Err(FsError::TooLarge { path: self.path.clone(), size, limit: MOST_HASHED_HOLES });
        }
        old.rewind().map_err(failed)?;
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let failed = |source| errno::io("read", &self.path, source);
            let count = old.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                return Ok(());
            }
            self.write_all(&buffer[..count]).map_err(|source| errno::io("write", &self.path, source))?;
        }
    }

    /// Appends parts to the file. The hash does not include them.
    pub(super) fn write_parts(&mut self, parts: &mut dyn Parts) -> Result<(), FsError> {
        let mut buffer = vec![0; 256 * 1024];
        loop {
            self.stop.check()?;
            let part = parts.next_part(&mut buffer).map_err(|source| errno::io("copy", &self.path, source))?;
            let written = match part {
                Part::Data(count) if is_hole(&buffer[..count]) => self.skip(count as u64),
                Part::Data(count) => self.file.write_all(&buffer[..count]).map(|()| self.length += count as u64),
                Part::Hole(zeros) => self.skip(zeros),
                Part::End => return Ok(()),
            };
            written.map_err(|source| errno::io("write", &self.path, source))?;
        }
    }

    /// Extends the file by a hole.
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let length = self.length.checked_add(bytes).ok_or(io::ErrorKind::FileTooLarge)?;
        self.file.seek(io::SeekFrom::Start(length))?;
        self.length = length;
        Ok(())
    }

    /// Copies a file of the disk into this one: its blocks are shared if the disk supports that,
    /// and its mode bits are kept. The hash does not include them.
    pub(super) fn fill_from(mut self, file: &mut File, raw: &RawStat, times: Times) -> Result<Self, FsError> {
        if ioctl_ficlone(&self.file, &*file).is_err() {
            self.write_parts(&mut FileParts::new(file, size(raw)))?;
        }
        self.file.flush().map_err(|source| errno::io("copy", &self.path, source))?;
        if times == Times::Kept {
            let modified = Timespec { tv_sec: raw.st_mtime, tv_nsec: raw.st_mtime_nsec as _ };
            // Ignore failures: the content is right even if the time cannot be set.
            let _ = futimens(&self.file, &Timestamps { last_access: modified, last_modification: modified });
        }
        self.bits = raw.st_mode & 0o777;
        Ok(self)
    }

    /// Gives the file its name; see [`FileWriter::finish`].
    pub fn commit(mut self) -> Result<Written, FsError> {
        let failed = |errno| errno::error("write", &self.path, errno);
        if self.length > 0 {
            // Seeking past the end does not extend the file, so a hole at the end needs this call.
            ftruncate(&self.file, self.length).map_err(failed)?;
        }
        fchmod(&self.file, Mode::from_raw_mode(self.bits)).map_err(failed)?;
        if self.durability == Durability::Synced {
            // Sync before the rename, so that a power failure leaves the old bytes or all of the
            // new ones.
            fsync(&self.file).map_err(failed)?;
        }
        let to = OsStr::from_bytes(&self.name);
        match self.mode {
            WriteMode::Create => self.temporary.link_new(&self.file, &self.directory, to),
            WriteMode::Overwrite | WriteMode::Append => self.temporary.replace(&self.file, &self.directory, to),
        }
        .map_err(failed)?;
        let synced = self.durability.directory(self.directory.as_fd());
        synced.and(self.made.keep(self.durability)).map_err(|errno| errno::error("sync", &self.path, errno))?;
        let hash = std::mem::take(&mut self.hasher).finish();
        Ok(Written { path: self.path.clone(), bytes: self.bytes, hash, version: None })
    }
}

/// Returns true if bytes can become a hole: at least one block, and only zeros.
fn is_hole(bytes: &[u8]) -> bool {
    bytes.len() >= BLOCK && bytes.iter().all(|byte| *byte == 0)
}

impl Write for DiskWriter {
    /// Writes a block of zeros as a hole, so that a sparse file stays sparse even if its source
    /// reports no holes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stop.check_io()?;
        let count = if is_hole(bytes) {
            self.skip(bytes.len() as u64)?;
            bytes.len()
        } else {
            let count = self.file.write(bytes)?;
            self.length += count as u64;
            count
        };
        self.hasher.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FileWriter for DiskWriter {
    fn finish(self: Box<Self>) -> Result<Written, FsError> {
        self.commit()
    }
}
