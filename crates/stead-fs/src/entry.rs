//! What a filesystem says about its entries.

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::path::WorkspacePath;

/// What a path leads to. A path is exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    File,
    Directory,
    Symlink,
    /// A FIFO, socket or device on disk: listed and removable, never opened.
    Special,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Symlink => "symlink",
            Self::Special => "special",
        }
    }
}

/// Whether a file may be run. Every other mode bit is the backend's affair, and setuid is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    #[default]
    Plain,
    Executable,
}

/// Facts about one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub kind: Kind,
    /// Bytes of a file or of a link's target; 0 for directories.
    pub size: u64,
    pub permission: Permission,
    /// How often the file was written, from 1. Only the memory backend counts.
    pub version: Option<u64>,
    pub created_at_millis: Option<i64>,
    pub updated_at_millis: i64,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: WorkspacePath,
    pub stat: Stat,
}

/// A directory's entries sorted by name, the first `limit` of `total`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<Entry>,
    pub total: usize,
}

/// What a write left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Where the bytes are: the path asked for, with symbolic links resolved.
    pub path: WorkspacePath,
    /// Bytes this write brought.
    pub bytes: u64,
    /// Of the whole file after the write.
    pub hash: Digest,
    pub version: Option<u64>,
}
