//! Files as the raw interface shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stead_core::Timestamp;
use utoipa::ToSchema;

use crate::schema;

/// A directory's own entries, sorted by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Directory {
    pub path: String,
    pub entries: Vec<FileEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    File,
    Directory,
    Symlink,
    /// A FIFO, a socket or a device.
    Special,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FileEntry {
    pub path: String,
    pub kind: FileKind,
    pub size: u64,
    /// How often the file was written, where somebody counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub version: Option<u64>,
    #[schema(value_type = schema::Timestamp)]
    pub mtime: Timestamp,
}

/// What was put where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Placed {
    pub path: String,
    /// Of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub bytes: Option<u64>,
    /// Of a file's bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Digest, required = false)]
    pub hash: Option<String>,
    /// The number of the event that recorded it.
    #[schema(minimum = 1)]
    pub seq: u64,
}

/// Bytes that were stored under their digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Blob {
    #[schema(value_type = schema::Digest)]
    pub digest: String,
    pub bytes: u64,
}

/// What changed since the session began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Diff {
    /// Every path that was added, changed or removed.
    pub changed: Vec<String>,
    /// Those whose content the patch does not hold: binary or very large files.
    pub unshown: Vec<String>,
    /// What each of those was and is, by its content.
    pub contents: BTreeMap<String, Contents>,
    /// What `git apply` takes.
    pub patch: String,
}

/// A file before and after; null where there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Contents {
    #[schema(value_type = Option<schema::Digest>)]
    pub before: Option<String>,
    #[schema(value_type = Option<schema::Digest>)]
    pub after: Option<String>,
    /// As git writes it: `100644`, `100755` or `120000`.
    pub mode: String,
}
