//! The disk backend: a directory, and nothing above it.
//!
//! Invariant: the kernel resolves every name, with `openat2` (or name by name where that is
//! missing), beneath one directory descriptor and with symbolic links forbidden.
//! [`crate::filesystem::resolve`] follows links by reading them and asking the kernel again. So
//! replacing a name by a link between two steps causes an error, never an escape. No path is
//! checked as a string.
//!
//! FIFOs, sockets and devices are examined through `O_PATH`, which does not open them, and refused.

mod backend;
mod beneath;
mod copy;
mod create;
mod errno;
mod open;
mod remove;
mod snapshot;
mod stamp;
mod sync;
mod temporary;
mod walk;
mod working_tree;
mod write;

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, Stat};
use stead_core::ContentHash;

use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::stop::Stop;
use crate::filesystem::{Filesystem, Walk};
use crate::path::WorkspacePath;
use crate::tree_hash::{self, Room};
use beneath::Root;
pub use snapshot::DiskSnapshot;
pub use write::DiskWriter;

/// The guarantee that a change has when its call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The kernel has the bytes.
    #[default]
    Kernel,
    /// Every change is on the disk before the call that made it returns: the bytes, and the
    /// directories whose entries changed.
    Synced,
}

/// A directory as a [`Filesystem`](crate::Filesystem). Clones share the descriptor.
#[derive(Clone)]
pub struct DiskFs {
    root: Arc<Root>,
    durability: Durability,
    snapshots: PathBuf,
    stop: Stop,
}

impl DiskFs {
    /// Opens a host directory. Only this function resolves a host path without restrictions.
    pub fn open(path: &Path) -> io::Result<Self> {
        let fs = Self::from_fd(beneath::open_host_directory(path)?);
        fs.root.directory(&WorkspacePath::root())?;
        Ok(fs)
    }

    /// Uses the directory behind a descriptor.
    pub fn from_fd(fd: OwnedFd) -> Self {
        let (durability, snapshots) = (Durability::default(), std::env::temp_dir());
        Self { root: Arc::new(Root::new(fd)), durability, snapshots, stop: Stop::default() }
    }

    /// Opens a directory below this one, without following links.
    pub fn subdirectory(&self, path: &WorkspacePath) -> Result<Self, FsError> {
        let fd = self.root.directory(path).map_err(|errno| errno::error("open", path, errno))?;
        Ok(Self { root: Arc::new(Root::new(fd)), ..self.clone() })
    }

    /// User id of the directory's owner.
    pub fn owner(&self) -> io::Result<u32> {
        Ok(rustix::fs::fstat(self.root.fd())?.st_uid)
    }

    /// The hash of the whole tree, like [`Filesystem::tree_hash`]; `None` if the tree has more
    /// entries or bytes than this.
    pub fn small_tree_hash(&self, most_entries: u64, most_bytes: u64) -> Result<Option<ContentHash>, FsError> {
        tree_hash::within(self, Room { entries: most_entries, bytes: most_bytes })
    }

    /// Finds the first regular file below that has a set-id bit and belongs to `owner`. Skips
    /// unreadable directories.
    pub fn find_set_id(&self, owner: u32) -> Result<Option<WorkspacePath>, FsError> {
        self.find_first(Kind::File, |raw| raw.st_uid == owner && raw.st_mode & 0o6000 != 0)
    }

    /// Finds the first socket below. Skips unreadable directories.
    pub fn find_socket(&self) -> Result<Option<WorkspacePath>, FsError> {
        self.find_first(Kind::Special, |raw| FileType::from_raw_mode(raw.st_mode) == FileType::Socket)
    }

    fn find_first(&self, kind: Kind, wanted: impl Fn(&Stat) -> bool) -> Result<Option<WorkspacePath>, FsError> {
        let mut found = None;
        self.walk(&WorkspacePath::root(), &mut |walked| {
            let entry = if walked.kind == kind { self.root.entry(&walked.path).ok() } else { None };
            let raw = entry.and_then(|fd| rustix::fs::fstat(fd).ok());
            if raw.is_some_and(|raw| wanted(&raw)) {
                found = Some(walked.path.clone());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(Walk::IfReadable)
        })?;
        Ok(found)
    }

    pub fn with_durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Stops walks and writes of this filesystem when the flag is set, between two entries or two
    /// pieces of a file.
    pub fn with_stop(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// Sets the directory for the copies of [`snapshot`](crate::Filesystem::snapshot). On the same
    /// disk they can share blocks.
    pub fn with_snapshots(self, directory: PathBuf) -> Self {
        Self { snapshots: directory, ..self }
    }
}

impl fmt::Debug for DiskFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskFs").field("root", &self.root).field("durability", &self.durability).finish_non_exhaustive()
    }
}
