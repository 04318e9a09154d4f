//! The form of a tree's hash, the same for every backend.
//!
//! A directory's hash is the SHA-256 of its entries in the order of their names: one byte for the kind (`f` file, `x` executable
//! file, `d` directory, `l` link), the name's length as four bytes little-endian, the name, and the 32 bytes of the
//! entry's own hash (contents, entries, target). Special files on disk are left out: they hold nothing.

use crate::digest::{Digest, Hasher};
use crate::entry::Permission;

pub(crate) enum HashedEntry {
    File(Permission, Digest),
    Directory(Digest),
    Link(Digest),
}

pub(crate) struct DirectoryHash(Hasher);

impl DirectoryHash {
    pub(crate) fn new() -> Self {
        let mut hasher = Hasher::default();
        hasher.update(b"stead tree 1\n");
        Self(hasher)
    }

    /// Entries come in the order of their names' bytes.
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

    pub(crate) fn finish(self) -> Digest {
        self.0.finish()
    }
}
