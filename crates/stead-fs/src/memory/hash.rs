//! The Merkle hash of the tree, in the form of `tree_hash.rs`. Each node caches its own.

use super::tree::{Directory, File, Node};
use crate::digest::Digest;
use crate::tree_hash::{DirectoryHash, HashedEntry};

impl File {
    pub(super) fn hash(&self) -> Digest {
        *self.hash.get_or_init(|| Digest::of(&self.content))
    }
}

impl Directory {
    /// The recursion is as deep as the tree, at most [`super::MemoryFs::MAX_DEPTH`].
    pub(super) fn hash(&self) -> Digest {
        *self.hash.get_or_init(|| {
            let mut hash = DirectoryHash::new();
            for (name, node) in &self.entries {
                hash.add(name, node.hashed());
            }
            hash.finish()
        })
    }
}

impl Node {
    fn hashed(&self) -> HashedEntry {
        match self {
            Self::File(file) => HashedEntry::File(file.permission, file.hash()),
            Self::Directory(directory) => HashedEntry::Directory(directory.hash()),
            Self::Link(link) => HashedEntry::Link(Digest::of(&link.target)),
        }
    }
}
