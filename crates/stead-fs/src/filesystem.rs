//! The contract of all backends, so that a tool behaves the same on each of them.
//!
//! Promises that hold for every method:
//! * Nothing outside the filesystem is read, written or named, whatever the path, the links or
//!   other processes do.
//! * A method that returns an error has changed nothing.
//! * Symbolic links are followed while they stay inside; one that leads outside is
//!   [`FsError::Escapes`].
//! * A path is a file, a directory, a link or a special file, never two of these. Directories may
//!   be empty.
//! * `at_millis` is the time that the caller gives. The memory backend stores it; a disk has its
//!   own clock.

pub(crate) mod change;
pub(crate) mod entry;
pub(crate) mod resolve;
pub(crate) mod stop;
pub(crate) mod walk_order;

use std::io::{self, Read, Seek, Write};
use std::ops::{ControlFlow, Range};

use bytes::Bytes;
use stead_core::ContentHash;

use crate::disk::DiskSnapshot;
use crate::error::FsError;
use crate::filesystem::entry::{Kind, Listing, Permission, Stat, Written};
use crate::memory::MemoryFs;
use crate::path::WorkspacePath;
use crate::search::{self, GlobFound, GlobQuery, GrepFound, GrepQuery};

/// The treatment of an existing or missing file by a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// The file must not exist.
    #[default]
    Create,
    /// Replaces the file, or creates it.
    Overwrite,
    /// Appends to the file, or creates it.
    Append,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recursion {
    /// Removes a directory with everything in it.
    Recursive,
    /// Removes a directory only if it is empty.
    EmptyOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignoring {
    /// Applies `.gitignore` files and skips the `.git` directory.
    GitIgnore,
    Nothing,
}

/// A seekable stream, for downloads, byte ranges and holes.
pub trait ReadSeek: Read + Seek + Send {
    /// Returns the next range at or after `from` that holds data; `None` if only a hole follows.
    /// Moves the position.
    fn data_after(&mut self, from: u64) -> io::Result<Option<Range<u64>>>;
}

/// The next part of a file that may have holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// This many bytes, in the buffer.
    Data(usize),
    /// This many zeros, which take no space.
    Hole(u64),
    End,
}

/// The content of a file, part by part. A hole is reported and not read, so its size costs nothing.
pub trait Parts {
    /// Returns the next part. Puts the bytes of data into the buffer.
    fn next_part(&mut self, buffer: &mut [u8]) -> io::Result<Part>;
}

/// A writer to a file. [`FileWriter::finish`] changes the file atomically; dropping the writer
/// changes nothing.
pub trait FileWriter: Write {
    fn finish(self: Box<Self>) -> Result<Written, FsError>;
}

/// A file's content: in memory if it already is, as a stream otherwise.
pub enum Content {
    Bytes(Bytes),
    Stream { reader: Box<dyn ReadSeek>, size: u64 },
}

/// One entry of a walk. Links are reported, not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    pub path: WorkspacePath,
    pub kind: Kind,
}

/// A visitor's answer for a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// Enter this directory; fail if it is unreadable.
    Continue,
    /// Enter this directory if it is readable.
    IfReadable,
    /// Do not enter this directory.
    Skip,
}

/// A state to restore, only in the filesystem that made it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Snapshot {
    Memory(MemoryFs),
    Disk(DiskSnapshot),
}

/// A filesystem. The module's documentation lists the promises that all methods share.
pub trait Filesystem: Send + Sync {
    /// Returns the metadata of the path's target, following links.
    fn stat(&self, path: &WorkspacePath) -> Result<Stat, FsError>;

    /// Returns the metadata of the entry itself, without following a link.
    fn stat_entry(&self, path: &WorkspacePath) -> Result<Stat, FsError>;

    /// Resolves every link in the path. Keeps the first segment that does not exist and all after
    /// it.
    fn resolve(&self, path: &WorkspacePath) -> Result<WorkspacePath, FsError>;

    /// Reads the whole file. On disk a file over 64 MiB is [`FsError::TooLarge`].
    fn read_bytes(&self, path: &WorkspacePath) -> Result<Bytes, FsError>;

    /// Opens the file as a stream, in constant memory. The stream shows one state of the file,
    /// unless the file is written in place.
    fn open_read(&self, path: &WorkspacePath) -> Result<Content, FsError>;

    /// Like [`Self::open_read`], for a regular file that [`Self::walk`] reported. It follows no
    /// links and is cheaper.
    fn open_walked(&self, path: &WorkspacePath) -> Result<Content, FsError>;

    /// Computes the hash of the file's bytes, in constant memory: SHA-256, or a hash that skips
    /// zeros if a file on disk has large holes.
    fn hash(&self, path: &WorkspacePath) -> Result<ContentHash, FsError>;

    /// Returns a link's target, unresolved.
    fn read_link(&self, path: &WorkspacePath) -> Result<Vec<u8>, FsError>;

    /// Lists a directory's entries, sorted by name, up to `limit`.
    fn list(&self, path: &WorkspacePath, limit: usize) -> Result<Listing, FsError>;

    /// Visits every entry below `path` (not `path` itself) in the byte order of full paths,
    /// directories before their entries. Skips entries that vanish meanwhile.
    fn walk(
        &self,
        path: &WorkspacePath,
        visit: &mut dyn FnMut(&Walked) -> ControlFlow<(), Walk>,
    ) -> Result<(), FsError> {
        self.walk_named(path, &|_, _| true, visit)
    }

    /// Like [`Self::walk`], but skips entries whose name is not wanted. Does not enter a skipped
    /// directory.
    fn walk_named(
        &self,
        path: &WorkspacePath,
        wants: &dyn Fn(&[u8], Kind) -> bool,
        visit: &mut dyn FnMut(&Walked) -> ControlFlow<(), Walk>,
    ) -> Result<(), FsError>;

    /// Finds files whose path below `query.path` matches. The result is sorted and limited; its
    /// `truncated` flag is set if there are more.
    fn glob(&self, query: &GlobQuery) -> Result<GlobFound, FsError> {
        search::glob(self, query)
    }

    /// Finds matching lines, sorted by path and line number. The result is limited; its `truncated`
    /// flag is set if there are more. Skips binary files.
    fn grep(&self, query: &GrepQuery) -> Result<GrepFound, FsError> {
        search::grep(self, query)
    }

    /// Writes text; see [`Self::write_bytes`].
    fn write(&mut self, path: &WorkspacePath, text: &str, mode: WriteMode, at_millis: i64) -> Result<Written, FsError> {
        self.write_bytes(path, Bytes::copy_from_slice(text.as_bytes()), mode, at_millis)
    }

    /// Writes a file atomically: readers see the old bytes or the new. Creates parent directories
    /// and keeps the mode bits.
    fn write_bytes(
        &mut self,
        path: &WorkspacePath,
        content: Bytes,
        mode: WriteMode,
        at_millis: i64,
    ) -> Result<Written, FsError>;

    /// Like [`Self::write_bytes`], for content that does not fit in memory.
    fn open_write<'a>(
        &'a mut self,
        path: &WorkspacePath,
        mode: WriteMode,
        at_millis: i64,
    ) -> Result<Box<dyn FileWriter + 'a>, FsError>;

    /// Writes a file like [`Self::open_write`], and keeps holes if the backend supports them. Does
    /// not hash the content, because hashing a hole takes as long as hashing data.
    fn write_parts(
        &mut self,
        path: &WorkspacePath,
        parts: &mut dyn Parts,
        mode: WriteMode,
        at_millis: i64,
    ) -> Result<(), FsError>;

    /// Makes a directory and its parents. No-op if it exists; a file at one of these paths is
    /// [`FsError::Exists`] or [`FsError::NotDirectory`].
    fn mkdir(&mut self, path: &WorkspacePath, at_millis: i64) -> Result<(), FsError>;

    /// Makes a symbolic link. The target may be any path, but following it outside is an error.
    fn symlink(&mut self, path: &WorkspacePath, target: &[u8], at_millis: i64) -> Result<(), FsError>;

    fn set_permission(&mut self, path: &WorkspacePath, permission: Permission, at_millis: i64) -> Result<(), FsError>;

    /// Removes an entry (for a link, the link itself). Returns the number of removed entries,
    /// including the directory.
    fn delete(&mut self, path: &WorkspacePath, recursion: Recursion) -> Result<u64, FsError>;

    /// Moves an entry (for a link, the link itself). The new name must be free; its parents are
    /// created.
    fn rename(&mut self, from: &WorkspacePath, to: &WorkspacePath, at_millis: i64) -> Result<(), FsError>;

    /// Copies an entry with everything below it; a link is copied as a link. The new name must be
    /// free; its parents are created. Mode bits are kept, times are not. A special file is
    /// [`FsError::Special`]. Returns the number of copied entries, including the directory.
    fn copy(&mut self, from: &WorkspacePath, to: &WorkspacePath, at_millis: i64) -> Result<u64, FsError>;

    /// Takes a snapshot. Free in memory; a copy on disk, with shared blocks if possible.
    fn snapshot(&self) -> Result<Snapshot, FsError>;

    /// Restores everything: edits, deletions, new and ignored files, permissions, empty
    /// directories, links.
    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), FsError>;

    /// One hash over names, kinds, permissions, contents and link targets. Equal trees have equal
    /// hashes on every backend. Times and versions are not included.
    fn tree_hash(&self) -> Result<ContentHash, FsError>;
}
