//! The changes of a patch, one value per file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stead_core::ContentHash;

use crate::path::WorkspacePath;

/// The changes between two trees.
///
/// A box of an older version sends only the first four fields.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Patch {
    /// The sections for `git apply`.
    pub text: String,
    /// All added, changed and removed paths, sorted. A rename counts with both paths.
    pub changed: Vec<WorkspacePath>,
    /// The changed paths whose content is not in the text, because it is too large.
    pub unshown: Vec<WorkspacePath>,
    /// Hashes of the unshown files before and after, for readers that fetch the bytes. Omits files
    /// of more than 64 GiB.
    #[serde(default)]
    pub contents: BTreeMap<WorkspacePath, Contents>,
    /// The changed files, sorted by path.
    #[serde(default)]
    pub files: Vec<FileChange>,
    /// Changes that no patch can carry, sorted by path.
    #[serde(default)]
    pub omitted: Vec<Omitted>,
    /// Number of changed files that were left out because `.gitignore` matches them.
    #[serde(default)]
    pub ignored: u64,
}

/// The hashes of a file before and after; `None` if it does not exist there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    pub before: Option<ContentHash>,
    pub after: Option<ContentHash>,
    /// Git's mode, `100644`, `100755` or `120000`: the one after the change, or before if the file
    /// was removed.
    pub mode: String,
}

/// One changed file or link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    pub path: WorkspacePath,
    pub kind: ChangeKind,
    /// The path before a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<WorkspacePath>,
    /// Git's modes before and after; `None` where the file does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_mode: Option<String>,
    /// Sizes before and after in bytes; 0 where the file does not exist.
    pub old_bytes: u64,
    pub new_bytes: u64,
    /// Number of changed lines; `None` for content that is not compared by lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<LineCounts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Deleted,
    Modified,
    Renamed,
    /// A file became a link, or a link a file.
    TypeChanged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LineCounts {
    pub added: u64,
    pub removed: u64,
}

/// A change that no patch can carry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Omitted {
    pub path: WorkspacePath,
    pub reason: OmittedReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OmittedReason {
    /// A directory that is empty now.
    EmptyDirectory,
    /// A directory that was empty and no longer exists.
    RemovedDirectory,
    /// A FIFO, a socket or a device.
    SpecialFile,
    /// A name that git accepts from no patch, like `git~1`.
    RefusedName,
    /// A repository in a subdirectory, or a name that differs from `.git` only in its case.
    Repository,
}

impl OmittedReason {
    pub const fn describe(self) -> &'static str {
        match self {
            Self::EmptyDirectory => "empty directory",
            Self::RemovedDirectory => "removed empty directory",
            Self::SpecialFile => "special file",
            Self::RefusedName => "name that git refuses",
            Self::Repository => "nested repository",
        }
    }
}
