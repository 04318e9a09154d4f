//! The memory usage of a tree, as a disk limit counts it.

use std::collections::HashSet;
use std::sync::Arc;

use super::MemoryFs;
use super::tree::{Directory, Node};

/// Bytes of an entry besides its name and content: the node, and its share of the maps above it.
const ENTRY_BYTES: u64 = 512;

impl MemoryFs {
    /// Bytes of contents, names and entries. The cost depends on what has changed since the last
    /// call.
    pub fn used_bytes(&self) -> u64 {
        self.root.used_bytes()
    }

    /// Bytes of several trees together; shared nodes count once.
    pub fn used_together<'a>(trees: impl IntoIterator<Item = &'a Self>) -> u64 {
        let mut seen = HashSet::new();
        trees.into_iter().map(|tree| new_bytes(&tree.root, &mut seen)).sum()
    }
}

impl Directory {
    fn used_bytes(&self) -> u64 {
        *self.used_bytes.get_or_init(|| self.entries.iter().map(|(name, node)| entry_bytes(name, node)).sum())
    }
}

fn entry_bytes(name: &[u8], node: &Node) -> u64 {
    let content = match node {
        Node::File(file) => file.content.len() as u64,
        Node::Link(link) => link.target.len() as u64,
        Node::Directory(directory) => directory.used_bytes(),
    };
    ENTRY_BYTES + name.len() as u64 + content
}

/// Bytes below a directory that have not been counted yet.
fn new_bytes(directory: &Arc<Directory>, seen: &mut HashSet<usize>) -> u64 {
    if !seen.insert(Arc::as_ptr(directory).addr()) {
        return 0;
    }
    let of = |(name, node): (&Arc<[u8]>, &Node)| {
        let content = match node {
            Node::File(file) if !file.content.is_empty() && seen.insert(file.content.as_ptr().addr()) => {
                file.content.len() as u64
            }
            Node::File(_) => 0,
            Node::Link(link) => link.target.len() as u64,
            Node::Directory(directory) => new_bytes(directory, seen),
        };
        ENTRY_BYTES + name.len() as u64 + content
    };
    directory.entries.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filesystem as _, Recursion, WriteMode};

    #[test]
    fn what_trees_share_counts_once() {
        let mut files = MemoryFs::new();
        let at = |path: &str| path.parse().unwrap();
        files.write(&at("d/a"), &"a".repeat(100_000), WriteMode::Create, 0).unwrap();
        let before = files.clone();
        assert!((100_000..102_000).contains(&before.used_bytes()), "{}", before.used_bytes());
        files.write(&at("d/b"), &"b".repeat(50_000), WriteMode::Create, 0).unwrap();
        assert!((150_000..154_000).contains(&files.used_bytes()));
        let together = MemoryFs::used_together([&before, &files]);
        assert!((150_000..155_000).contains(&together), "{together}");
        files.delete(&at("d/a"), Recursion::EmptyOnly).unwrap();
        assert!(files.used_bytes() < 54_000);
        assert!(MemoryFs::used_together([&before, &files]) >= 150_000);
    }
}
