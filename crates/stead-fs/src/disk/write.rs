//! Writes files: into a file without a name, which then gets its name atomically.
//!
//! Readers see the old file or the new one. Mode bits and owner of an old file are kept; setuid and
//! setgid are not. A writer that dies leaves nothing behind, unless the disk lacks `O_TMPFILE`; see
//! [`super::temporary`].

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek as _, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, fchmod, fstat, fsync, ftruncate};
use stead_core::content_hash::Hasher;

use super::create::{Made, inherit_owner, split};
use super::open::{Found, reopen_file};
use super::temporary::Temporary;
use super::{DiskFs, Durability, errno};

use crate::error::FsError;
use crate::filesystem::entry::{Kind, Written};
use crate::filesystem::resolve::LastLink;
use crate::filesystem::stop::Stop;
use crate::filesystem::{FileWriter, Part, Parts, WriteMode};
use crate::path::WorkspacePath;

/// Size of the smallest hole in a file system.
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
            writer.copy_from(reopen_file(old, path)?)?;
            writer.bytes = 0;
        }
        Ok(writer)
    }
}

impl DiskWriter {
    fn copy_from(&mut self, mut old: File) -> Result<(), FsError> {
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

    /// Makes a hole.
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let length = self.length.checked_add(bytes).ok_or(io::ErrorKind::FileTooLarge)?;
        self.file.seek(io::SeekFrom::Start(length))?;
        self.length = length;
        Ok(())
    }

    /// The unnamed file. The hash does not include what is written to it directly.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn file_mut(&mut self) -> &mut File {
        &mut self.file
    }

    pub(super) fn set_bits(&mut self, bits: u32) {
        self.bits = bits;
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
    /// Writes zeros as a hole, so that a sparse file stays sparse whatever its source is.
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
