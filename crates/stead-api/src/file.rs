//! Files of a workspace in the raw file API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use utoipa::ToSchema;

use crate::schema;

/// The direct entries of a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Directory {
    /// Path of the directory.
    pub path: String,
    /// Entries sorted by name.
    pub entries: Vec<FileEntry>,
}

/// Kind of a directory entry. `special` is a FIFO, a socket or a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    /// A FIFO, a socket or a device.
    Special,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileEntry {
    /// Path of the entry from the workspace root.
    pub path: String,
    /// Kind of the entry.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Number of writes to the file. Absent if the provider does not count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub version: Option<u64>,
    /// Time of the last modification.
    #[schema(value_type = schema::Timestamp)]
    pub mtime: Timestamp,
}

/// Result of writing a file, making a directory or unpacking an archive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Placed {
    /// Path that was written.
    pub path: String,
    /// Size of the written file in bytes. Absent for a directory or an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub bytes: Option<u64>,
    /// Hash of the written file. Absent for a directory or an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Digest, required = false)]
    pub hash: Option<String>,
    /// Sequence number of the event that recorded the change.
    #[schema(minimum = 1)]
    pub seq: u64,
}

/// Stored bytes, addressed by their hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Blob {
    /// Hash of the bytes; also the id of the blob.
    #[schema(value_type = schema::Digest)]
    pub digest: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// Changes to the workspace since the session started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    /// Every path that was added, changed or removed. A renamed file has both of its paths.
    pub changed: Vec<String>,
    /// Changed paths that the patch omits, because they are very large or the patch would be.
    pub unshown: Vec<String>,
    /// Hashes before and after the change for each path in `unshown`.
    pub contents: BTreeMap<String, Contents>,
    /// The changes as a patch for `git apply`.
    pub patch: String,
    /// The changed files, sorted by path.
    #[serde(default)]
    pub files: Vec<FileChange>,
    /// Changes that no patch can carry.
    #[serde(default)]
    pub omitted: Vec<Omitted>,
    /// Number of changed files that are left out, because the workspace is a git repository and its
    /// `.gitignore` files match them. `all=true` includes them.
    #[serde(default)]
    pub ignored: u64,
}

/// One changed file or link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileChange {
    /// Path of the file; for a deleted file, the path it had.
    pub path: String,
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Path before a rename.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<String>,
    /// Mode before, as git writes it: `100644`, `100755` or `120000`. Absent for an added file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub old_mode: Option<String>,
    /// Mode after. Absent for a deleted file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub new_mode: Option<String>,
    /// Size before in bytes; 0 for an added file.
    pub old_bytes: u64,
    /// Size after in bytes; 0 for a deleted file.
    pub new_bytes: u64,
    /// Number of added lines. Absent for a binary or very large file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub insertions: Option<u64>,
    /// Number of removed lines. Absent for a binary or very large file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub deletions: Option<u64>,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Added,
    Deleted,
    Modified,
    Renamed,
    /// A file became a link, or a link a file.
    TypeChanged,
}

/// A change that no patch can carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Omitted {
    /// Path of the entry.
    pub path: String,
    /// Reason why a patch cannot carry the change.
    pub reason: OmittedReason,
}

/// Reason why a patch cannot carry a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    /// A repository in a subdirectory, or a name that differs from `.git` only in its case. Git
    /// accepts its files from no patch.
    Repository,
}

/// Hashes of a file before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Contents {
    /// Hash before the change; `null` if the file did not exist.
    #[schema(value_type = Option<schema::Digest>)]
    pub before: Option<String>,
    /// Hash after the change; `null` if the file was removed.
    #[schema(value_type = Option<schema::Digest>)]
    pub after: Option<String>,
    /// Mode as git writes it: `100644`, `100755` or `120000`.
    pub mode: String,
}
