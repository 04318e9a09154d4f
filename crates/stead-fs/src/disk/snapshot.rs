//! Copies of a directory tree, and restoring them.
//!
//! Files share blocks with their copies where the disk supports that. A restore touches only what
//! differs and compares bytes, because times can be forged. A restore that fails half way can be
//! repeated. It is the only operation of this backend that is not atomic.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::create::set_bits;
use super::write::Times;
use super::{DiskFs, errno};
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::resolve::LastLink;
use crate::filesystem::{Filesystem, Recursion, Walk, Walked, WriteMode};
use crate::path::WorkspacePath;
use crate::sparse::same_content;

/// A state of a [`DiskFs`], kept in a separate directory.
#[derive(Debug, Clone)]
pub struct DiskSnapshot {
    tree: DiskFs,
    _directory: Option<Arc<Removed>>,
}

/// A directory that is removed with its last owner.
#[derive(Debug)]
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl DiskSnapshot {
    /// Opens a snapshot that [`DiskFs::snapshot_to`] made, in this process or an earlier one.
    pub fn open(directory: &Path) -> io::Result<Self> {
        Ok(Self { tree: DiskFs::open(directory)?, _directory: None })
    }

    /// The files of the snapshot.
    pub fn tree(&self) -> &DiskFs {
        &self.tree
    }
}

impl DiskFs {
    /// Copies the tree into a new directory, which the caller has to remove.
    pub fn snapshot_to(&self, directory: &Path) -> Result<DiskSnapshot, FsError> {
        let root = WorkspacePath::root();
        let failed = |source| errno::io("make the snapshot of", &root, source);
        std::fs::create_dir(directory).map_err(failed)?;
        let copied = DiskSnapshot::open(directory).map_err(failed).and_then(|snapshot| {
            make_equal(self, &snapshot.tree)?;
            Ok(snapshot)
        });
        if copied.is_err() {
            let _ = std::fs::remove_dir_all(directory);
        }
        copied
    }

    /// Copies the tree into a new directory, which is removed when the snapshot is dropped.
    pub(super) fn snapshot_now(&self) -> Result<DiskSnapshot, FsError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let name = format!("stead-snapshot-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let directory = self.snapshots.join(name);
            match self.snapshot_to(&directory) {
                Ok(snapshot) => return Ok(DiskSnapshot { _directory: Some(Arc::new(Removed(directory))), ..snapshot }),
                Err(FsError::Exists { .. }) => {}
                Err(other) => return Err(other),
            }
        }
    }

    pub(super) fn restore_from(&self, snapshot: &DiskSnapshot) -> Result<(), FsError> {
        make_equal(&snapshot.tree, self)
    }
}

/// Changes `to` until it equals `from`.
fn make_equal(from: &DiskFs, to: &DiskFs) -> Result<(), FsError> {
    let mut wanted = HashSet::new();
    let mut entries = Vec::new();
    collect(from, |walked| {
        wanted.insert((walked.path.clone(), walked.kind));
        entries.push(walked.clone());
        Walk::Continue
    })?;
    let mut surplus = Vec::new();
    collect(to, |walked| {
        if wanted.contains(&(walked.path.clone(), walked.kind)) && walked.kind != Kind::Special {
            return Walk::Continue;
        }
        surplus.push(walked.path.clone());
        Walk::Skip
    })?;
    for path in surplus {
        to.remove(&path, Recursion::Recursive)?;
    }
    entries.iter().try_for_each(|entry| match entry.kind {
        Kind::Directory => to.make(&entry.path),
        Kind::File => copy_file(from, to, &entry.path),
        Kind::Symlink => copy_link(from, to, &entry.path),
        // A FIFO or a socket is meaningful only to the processes that use it.
        Kind::Special => Ok(()),
    })?;
    // From the inside out: the final mode of a directory may forbid writing.
    let mut directories = entries.iter().rev().filter(|entry| entry.kind == Kind::Directory);
    directories.try_for_each(|entry| copy_mode(from, to, &entry.path))
}

fn copy_mode(from: &DiskFs, to: &DiskFs, path: &WorkspacePath) -> Result<(), FsError> {
    let wanted = from.find(path, LastLink::Kept)?.raw.st_mode & 0o777;
    let now = to.find(path, LastLink::Kept)?;
    if now.raw.st_mode & 0o777 == wanted { Ok(()) } else { set_bits(&now, wanted) }
}

pub(super) fn collect(fs: &DiskFs, mut each: impl FnMut(&Walked) -> Walk) -> Result<(), FsError> {
    fs.walk_below(&WorkspacePath::root(), &|_, _| true, &mut |walked| ControlFlow::Continue(each(walked)))
}

pub(super) fn copy_link(from: &DiskFs, to: &DiskFs, path: &WorkspacePath) -> Result<(), FsError> {
    let target = from.read_link(path)?;
    match to.read_link(path) {
        Ok(old) if old == target => return Ok(()),
        Ok(_) => to.remove(path, Recursion::EmptyOnly).map(drop)?,
        Err(FsError::NotFound { .. }) => {}
        Err(other) => return Err(other),
    }
    to.make_link(path, &target)
}

fn copy_file(from: &DiskFs, to: &DiskFs, path: &WorkspacePath) -> Result<(), FsError> {
    let source = from.find(path, LastLink::Kept)?;
    let (mut file, size) = from.open_plain(path)?;
    let failed = |source| errno::io("copy", path, source);
    if !same_bytes(to, path, &mut file, size).map_err(failed)? {
        io::Seek::rewind(&mut file).map_err(failed)?;
        let writer = to.begin_write(path, WriteMode::Overwrite)?;
        writer.fill_from(&mut file, &source.raw, Times::Kept)?.commit()?;
    }
    copy_mode(from, to, path)
}

pub(super) fn same_bytes(to: &DiskFs, path: &WorkspacePath, file: &mut File, size: u64) -> io::Result<bool> {
    let Ok((mut other, other_size)) = to.open_plain(path) else { return Ok(false) };
    if size != other_size {
        return Ok(false);
    }
    same_content(file, &mut other, size)
}
