//! Directories that survive a power failure and are readable only by their owner.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Creates `path` and its missing parents with mode 0700, each durable in its parent. Existing
/// directories keep their mode, because they may be shared on purpose.
pub(crate) fn create_all(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = parent(path);
    create_all(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        // Another process created it first. The sync below covers its entry too.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        made => made?,
    }
    sync(parent)
}

/// Makes the names in a directory durable.
pub(crate) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// The parent directory, or the current directory for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}
