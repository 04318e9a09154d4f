//! Descriptions of filesystem entries.

use serde::{Deserialize, Serialize};
use stead_core::ContentHash;

use crate::path::WorkspacePath;

/// The kind of an entry. A path has exactly one kind.
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

/// The executable bit of a file. All other mode bits are left to the backend; setuid is not
/// supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    #[default]
    Plain,
    Executable,
}

/// Metadata of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    pub kind: Kind,
    /// Bytes of a file or of a link's target; 0 for directories.
    pub size: u64,
    pub permission: Permission,
    /// The mode bits without the file type. Memory has only the usual ones.
    pub mode: u32,
    /// Number of writes to the file, from 1. Only the memory backend counts them.
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

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The path of the file, with symbolic links resolved.
    pub path: WorkspacePath,
    /// Number of bytes written.
    pub bytes: u64,
    /// Hash of the whole file after the write.
    pub hash: ContentHash,
    pub version: Option<u64>,
}
