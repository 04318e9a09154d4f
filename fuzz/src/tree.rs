//! Helpers to inspect a filesystem.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use stead_fs::{ContentHash, Filesystem, Kind, MemoryFs, Walk, WorkspacePath, WriteMode};

/// Parses a path literal, which must be valid.
pub fn path(text: &str) -> WorkspacePath {
    text.parse().expect("a path in a fuzz target is a path")
}

/// A workspace that already has entries, which may conflict.
pub fn taken() -> MemoryFs {
    let mut fs = MemoryFs::new();
    fs.write(&path("taken/file"), "old", WriteMode::Create, 0).expect("an empty tree takes a file");
    fs.symlink(&path("link"), b"taken", 0).expect("an empty tree takes a link");
    fs
}

pub fn hash(fs: &dyn Filesystem) -> ContentHash {
    fs.tree_hash().expect("a tree has a hash")
}

/// Every entry in walk order: sorted and without duplicates. A directory sorts as if its name ended
/// in `/`.
pub fn contents(fs: &dyn Filesystem) -> BTreeMap<WorkspacePath, Kind> {
    let mut found = BTreeMap::new();
    let mut last = Vec::new();
    let walked = fs.walk(&WorkspacePath::root(), &mut |walked| {
        let mut place = walked.path.as_bytes().to_vec();
        place.extend((walked.kind == Kind::Directory).then_some(b'/'));
        assert!(last < place, "{} comes too late", walked.path);
        last = place;
        for segment in walked.path.segments() {
            assert!(!matches!(segment, b"." | b".."), "{} climbs", walked.path);
        }
        found.insert(walked.path.clone(), walked.kind);
        ControlFlow::Continue(Walk::Continue)
    });
    walked.expect("a tree can be walked");
    found
}
