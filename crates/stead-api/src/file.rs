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
    /// Every path that was added, changed or removed.
    pub changed: Vec<String>,
    /// Changed paths whose content the patch omits: binary or very large files.
    pub unshown: Vec<String>,
    /// Hashes before and after the change for each path in `unshown`.
    pub contents: BTreeMap<String, Contents>,
    /// The changes as a patch for `git apply`.
    pub patch: String,
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
