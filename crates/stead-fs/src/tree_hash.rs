//! The form of a tree's hash, the same for every backend.
//!
//! A directory's hash is the SHA-256 of its entries in name order. Each entry consists of:
//! * one byte for the kind (`f` file, `x` executable file, `d` directory, `l` link),
//! * the name's length as four bytes little-endian,
//! * the name,
//! * the 32 bytes of the entry's own hash (contents, entries, target).
//!
//! Special files on disk are left out, because they have no content. `hash_file.rs` has the hash of
//! a file with large holes.

use std::ops::ControlFlow;

use crate::error::FsError;
use crate::filesystem::entry::{Kind, Permission};
use crate::filesystem::{Content, Filesystem, Walk, Walked};
use crate::path::WorkspacePath;
use crate::sparse::hash_file::hash_file;
use stead_core::ContentHash;
use stead_core::content_hash::Hasher;

pub(crate) enum HashedEntry {
    File(Permission, ContentHash),
    Directory(ContentHash),
    Link(ContentHash),
}

pub(crate) struct DirectoryHash(Hasher);

impl DirectoryHash {
    pub(crate) fn new() -> Self {
        let mut hasher = Hasher::default();
        hasher.update(b"stead tree 1\n");
        Self(hasher)
    }

    /// Adds an entry. Call it in the byte order of names.
    pub(crate) fn add(&mut self, name: &[u8], entry: HashedEntry) {
        let (tag, digest) = match entry {
            HashedEntry::File(Permission::Plain, digest) => (b'f', digest),
            HashedEntry::File(Permission::Executable, digest) => (b'x', digest),
            HashedEntry::Directory(digest) => (b'd', digest),
            HashedEntry::Link(digest) => (b'l', digest),
        };
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        self.0.update(&[tag]);
        self.0.update(&length.to_le_bytes());
        self.0.update(name);
        self.0.update(digest.as_bytes());
    }

    pub(crate) fn finish(self) -> ContentHash {
        self.0.finish()
    }
}

/// Computes the hash of a tree that does not cache it, in one walk. A directory is hashed when the
/// walk leaves it.
pub(crate) fn of<F: Filesystem + ?Sized>(fs: &F) -> Result<ContentHash, FsError> {
    let mut open = vec![Open { path: WorkspacePath::root(), entries: Vec::new() }];
    let mut failed = None;
    fs.walk(&WorkspacePath::root(), &mut |walked| {
        close_until(&mut open, &walked.path);
        match add(fs, &mut open, walked) {
            // Removed meanwhile: not part of the tree.
            Ok(()) | Err(FsError::NotFound { .. }) => ControlFlow::Continue(Walk::Continue),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    while open.len() > 1 {
        close(&mut open);
    }
    Ok(open.pop().map_or_else(|| DirectoryHash::new().finish(), Open::hash))
}

/// The maximum number of entries and bytes that a hash reads.
pub(crate) struct Room {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

impl Room {
    /// Returns false if the entry does not fit.
    fn take<F: Filesystem + ?Sized>(&mut self, fs: &F, walked: &Walked) -> Result<bool, FsError> {
        let size = if walked.kind == Kind::File { fs.stat_entry(&walked.path)?.size } else { 0 };
        let left = self.entries.checked_sub(1).zip(self.bytes.checked_sub(size));
        Ok(left.map(|(entries, bytes)| *self = Self { entries, bytes }).is_some())
    }
}

/// Like [`of`], for a tree that may be too large: returns `None` then, without reading any file.
pub(crate) fn within<F: Filesystem + ?Sized>(fs: &F, mut room: Room) -> Result<Option<ContentHash>, FsError> {
    let mut fits = Ok(true);
    fs.walk(&WorkspacePath::root(), &mut |walked| {
        fits = match room.take(fs, walked) {
            // `of` decides what a vanished entry means.
            Err(FsError::NotFound { .. }) => Ok(true),
            taken => taken,
        };
        if matches!(fits, Ok(true)) { ControlFlow::Continue(Walk::Continue) } else { ControlFlow::Break(()) }
    })?;
    if fits? { of(fs).map(Some) } else { Ok(None) }
}

/// A directory whose entries are not complete yet.
struct Open {
    path: WorkspacePath,
    entries: Vec<(Vec<u8>, HashedEntry)>,
}

impl Open {
    fn hash(mut self) -> ContentHash {
        self.entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut hash = DirectoryHash::new();
        for (name, entry) in self.entries {
            hash.add(&name, entry);
        }
        hash.finish()
    }
}

fn close_until(open: &mut Vec<Open>, path: &WorkspacePath) {
    while open.len() > 1 && open.last().is_some_and(|last| !path.is_within(&last.path)) {
        close(open);
    }
}

fn close(open: &mut Vec<Open>) {
    let Some(closed) = open.pop() else { return };
    let name = closed.path.name().unwrap_or_default().to_vec();
    let digest = closed.hash();
    if let Some(parent) = open.last_mut() {
        parent.entries.push((name, HashedEntry::Directory(digest)));
    }
}

fn add<F: Filesystem + ?Sized>(fs: &F, open: &mut Vec<Open>, walked: &Walked) -> Result<(), FsError> {
    let entry = match walked.kind {
        Kind::Special => return Ok(()),
        Kind::Directory => {
            open.push(Open { path: walked.path.clone(), entries: Vec::new() });
            return Ok(());
        }
        Kind::Symlink => HashedEntry::Link(ContentHash::of(&fs.read_link(&walked.path)?)),
        Kind::File => HashedEntry::File(fs.stat_entry(&walked.path)?.permission, content_hash(fs, &walked.path)?),
    };
    if let Some(parent) = open.last_mut() {
        parent.entries.push((walked.path.name().unwrap_or_default().to_vec(), entry));
    }
    Ok(())
}

fn content_hash<F: Filesystem + ?Sized>(fs: &F, path: &WorkspacePath) -> Result<ContentHash, FsError> {
    match fs.open_walked(path)? {
        Content::Bytes(bytes) => Ok(ContentHash::of(&bytes)),
        Content::Stream { mut reader, size } => {
            hash_file(&mut *reader, size).map_err(|source| FsError::Io { action: "read", path: path.clone(), source })
        }
    }
}
