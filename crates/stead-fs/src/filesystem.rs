//! The contract every backend keeps, so that a tool behaves the same wherever the files are.
//!
//! Promises that hold for every method:
//! * Nothing outside the filesystem is read, written or named, whatever the path, the links or other processes do.
//! * A method that returns an error has changed nothing.
//! * Symbolic links are followed while they stay inside; one that leads out is [`FsError::Escapes`].
//! * A path is a file, a directory, a link or a special file, never two of these. Directories may be empty.
//! * `at_millis` is the moment the caller says it is. The memory backend keeps it; a disk has its own clock.

use std::io::{self, Read, Seek, Write};
use std::ops::{ControlFlow, Range};

use bytes::Bytes;

use crate::digest::Digest;
use crate::disk::DiskSnapshot;
use crate::entry::{Kind, Listing, Permission, Stat, Written};
use crate::error::FsError;
use crate::memory::MemoryFs;
use crate::path::WorkspacePath;
use crate::search::{self, GlobFound, GlobQuery, GrepFound, GrepQuery};

/// What a write does about a file that is, or is not, there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// The file must not exist.
    #[default]
    Create,
    /// The file is replaced, or made.
    Overwrite,
    /// The bytes go after what is there, or make the file.
    Append,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recursion {
    /// A directory goes with all that is in it.
    Recursive,
    /// A directory must be empty.
    EmptyOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ignoring {
    /// `.gitignore` files and the `.git` directory count.
    GitIgnore,
    Nothing,
}

/// A stream one can seek in: downloads, byte ranges, holes.
pub trait ReadSeek: Read + Seek + Send {
    /// The next range at or after `from` that holds data; `None` if only a hole follows. Moves the position.
    fn data_after(&mut self, from: u64) -> io::Result<Option<Range<u64>>>;
}

/// The next part of a file that may have holes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// This many bytes are in the buffer.
    Data(usize),
    /// This many zeros that take no space.
    Hole(u64),
    End,
}

/// The content of a file, part by part. A hole is told and not read, so that its size costs nothing.
pub trait Parts {
    /// Returns the next part, and for data puts its bytes into the buffer.
    fn next_part(&mut self, buffer: &mut [u8]) -> io::Result<Part>;
}

/// A stream into a file. The file changes at [`FileWriter::finish`] and all at once; dropped before that, nothing happened.
pub trait FileWriter: Write {
    fn finish(self: Box<Self>) -> Result<Written, FsError>;
}

/// A file's bytes, in memory where they already are and as a stream where they are not.
pub enum Content {
    Bytes(Bytes),
    Stream { reader: Box<dyn ReadSeek>, size: u64 },
}

/// One entry as a walk meets it. Links are reported, not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    pub path: WorkspacePath,
    pub kind: Kind,
}

/// What a visitor wants next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walk {
    /// Into this directory; one that may not be read ends the walk with an error.
    Continue,
    /// Into this directory, if it may be read.
    IfReadable,
    /// Not into this directory.
    Skip,
}

/// A state to return to, made by the filesystem it is given back to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Snapshot {
    Memory(MemoryFs),
    Disk(DiskSnapshot),
}

/// See the module's header for the promises all methods share.
pub trait Filesystem: Send + Sync {
    /// Facts about what the path leads to, links followed.
    fn stat(&self, path: &WorkspacePath) -> Result<Stat, FsError>;

    /// Facts about the entry itself: a link is a link.
    fn stat_entry(&self, path: &WorkspacePath) -> Result<Stat, FsError>;

    /// Where the path leads with every link in it resolved; a last segment that does not exist is kept, and so are all behind it.
    fn resolve(&self, path: &WorkspacePath) -> Result<WorkspacePath, FsError>;

    /// The whole file. Files over 64 MiB on disk are [`FsError::TooLarge`].
    fn read_bytes(&self, path: &WorkspacePath) -> Result<Bytes, FsError>;

    /// The file as a stream, in constant memory. What is read is one state of the file where the file is replaced, not written in place.
    fn open_read(&self, path: &WorkspacePath) -> Result<Content, FsError>;

    /// [`Self::open_read`] for a regular file that [`Self::walk`] reported: links are not followed, and it is cheaper.
    fn open_walked(&self, path: &WorkspacePath) -> Result<Content, FsError>;

    /// The SHA-256 of the file's bytes, in constant memory.
    fn hash(&self, path: &WorkspacePath) -> Result<Digest, FsError>;

    /// A link's target, as it is written.
    fn read_link(&self, path: &WorkspacePath) -> Result<Vec<u8>, FsError>;

    /// A directory's own entries, sorted by name, the first `limit` of them.
    fn list(&self, path: &WorkspacePath, limit: usize) -> Result<Listing, FsError>;

    /// Every entry below `path` (not `path` itself) in the order of their full paths as bytes; directories before what is in them.
    /// Entries that vanish meanwhile are left out.
    fn walk(
        &self,
        path: &WorkspacePath,
        visit: &mut dyn FnMut(&Walked) -> ControlFlow<(), Walk>,
    ) -> Result<(), FsError> {
        self.walk_named(path, &|_, _| true, visit)
    }

    /// [`Self::walk`] that leaves out entries whose name is not wanted; of a directory, with all that is in it.
    fn walk_named(
        &self,
        path: &WorkspacePath,
        wants: &dyn Fn(&[u8], Kind) -> bool,
        visit: &mut dyn FnMut(&Walked) -> ControlFlow<(), Walk>,
    ) -> Result<(), FsError>;

    /// Files whose path below `query.path` matches, sorted, capped and said so.
    fn glob(&self, query: &GlobQuery) -> Result<GlobFound, FsError> {
        search::glob(self, query)
    }

    /// Lines that match, sorted by path and line, one per line, capped and said so. Binary files are skipped.
    fn grep(&self, query: &GrepQuery) -> Result<GrepFound, FsError> {
        search::grep(self, query)
    }

    /// Writes text; see [`Self::write_bytes`].
    fn write(&mut self, path: &WorkspacePath, text: &str, mode: WriteMode, at_millis: i64) -> Result<Written, FsError> {
        self.write_bytes(path, Bytes::copy_from_slice(text.as_bytes()), mode, at_millis)
    }

    /// Writes a file in one step: readers see the old bytes or the new. Parent directories are made. Mode bits are kept.
    fn write_bytes(
        &mut self,
        path: &WorkspacePath,
        content: Bytes,
        mode: WriteMode,
        at_millis: i64,
    ) -> Result<Written, FsError>;

    /// [`Self::write_bytes`] for more bytes than one holds in memory.
    fn open_write<'a>(
        &'a mut self,
        path: &WorkspacePath,
        mode: WriteMode,
        at_millis: i64,
    ) -> Result<Box<dyn FileWriter + 'a>, FsError>;

    /// Writes a file as [`Self::open_write`] does, and keeps holes where the backend can have them.
    /// Does not hash the content, because that takes as long for a hole as for data.
    fn write_parts(
        &mut self,
        path: &WorkspacePath,
        parts: &mut dyn Parts,
        mode: WriteMode,
        at_millis: i64,
    ) -> Result<(), FsError>;

    /// Makes a directory and its parents. One that exists is fine; a file in the way is [`FsError::Exists`] or
    /// [`FsError::NotDirectory`].
    fn mkdir(&mut self, path: &WorkspacePath, at_millis: i64) -> Result<(), FsError>;

    /// Makes a symbolic link. The target may lead anywhere; following it may not.
    fn symlink(&mut self, path: &WorkspacePath, target: &[u8], at_millis: i64) -> Result<(), FsError>;

    fn set_permission(&mut self, path: &WorkspacePath, permission: Permission, at_millis: i64) -> Result<(), FsError>;

    /// Removes an entry (of a link, the link) and says how many entries went, the directory itself counted.
    fn delete(&mut self, path: &WorkspacePath, recursion: Recursion) -> Result<u64, FsError>;

    /// Moves an entry (of a link, the link). The new name must be free; its parents are made.
    fn rename(&mut self, from: &WorkspacePath, to: &WorkspacePath, at_millis: i64) -> Result<(), FsError>;

    /// The state now. Costs nothing in memory; copies (by reference where the disk can) on disk.
    fn snapshot(&self) -> Result<Snapshot, FsError>;

    /// Everything as it was: edits, deletions, new and ignored files, permissions, empty directories, links.
    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), FsError>;

    /// One digest over names, kinds, permissions, contents and link targets; equal trees have equal hashes on every backend.
    /// Times and versions are not in it.
    fn tree_hash(&self) -> Result<Digest, FsError>;
}
