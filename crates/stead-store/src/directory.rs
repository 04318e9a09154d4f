//! Directories that are still there after a power failure, and readable only by their owner.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Makes `path` and what is missing above it, mode 0700, each made durable in its parent. What exists keeps its mode: it may be
/// shared with others on purpose.
pub(crate) fn create_all(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = parent(path);
    create_all(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        // Somebody else was faster; the sync below is for them too.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    sync(parent)
}

/// Makes the names in a directory durable.
pub(crate) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The directory that holds this name; the current one for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}
