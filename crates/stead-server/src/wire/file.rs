//! Files as the raw interface shows them.

use std::collections::BTreeMap;

use serde::Serialize;
use stead_core::Timestamp;
use stead_engine::ops::{Operated, PutFile};
use stead_fs::{Entry, Kind, Listing, WorkspacePath};
use utoipa::ToSchema;

use crate::schema;

/// A directory's own entries, sorted by name.
#[derive(Serialize, ToSchema)]
pub(crate) struct Directory {
    path: String,
    entries: Vec<FileEntry>,
}

#[derive(Serialize, ToSchema)]
struct FileEntry {
    path: String,
    #[schema(value_type = schema::FileKind)]
    kind: Kind,
    size: u64,
    /// How often the file was written, where somebody counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    version: Option<u64>,
    #[schema(value_type = schema::Timestamp)]
    mtime: Timestamp,
}

impl Directory {
    pub(crate) fn new(path: &WorkspacePath, listing: Listing) -> Self {
        Self { path: path.to_string(), entries: listing.entries.into_iter().map(FileEntry::from).collect() }
    }
}

impl From<Entry> for FileEntry {
    fn from(entry: Entry) -> Self {
        let Entry { path, stat } = entry;
        let mtime = Timestamp::from_millis(stat.updated_at_millis);
        Self { path: path.to_string(), kind: stat.kind, size: stat.size, version: stat.version, mtime }
    }
}

/// What was put where.
#[derive(Serialize, ToSchema)]
pub(crate) struct Placed {
    path: String,
    /// Of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    bytes: Option<u64>,
    /// Of a file's bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Digest, required = false)]
    hash: Option<String>,
    /// The number of the event that recorded it.
    #[schema(minimum = 1)]
    seq: u64,
}

impl Placed {
    pub(crate) fn file(path: &WorkspacePath, put: &PutFile) -> Self {
        let (bytes, hash) = (Some(put.bytes), Some(put.hash.to_string()));
        Self { path: path.to_string(), bytes, hash, seq: put.operated.seq }
    }

    pub(crate) fn directory(path: &WorkspacePath, operated: &Operated) -> Self {
        Self { path: path.to_string(), bytes: None, hash: None, seq: operated.seq }
    }
}

/// Bytes that were stored under their digest.
#[derive(Serialize, ToSchema)]
pub(crate) struct Blob {
    #[schema(value_type = schema::Digest)]
    pub(crate) digest: String,
    pub(crate) bytes: u64,
}

/// What changed since the session began.
#[derive(Serialize, ToSchema)]
pub(crate) struct Diff {
    /// Every path that was added, changed or removed.
    changed: Vec<String>,
    /// Those whose content the patch does not hold: binary or very large files.
    unshown: Vec<String>,
    /// What each of those was and is, by its content.
    contents: BTreeMap<String, Contents>,
    /// What `git apply` takes.
    patch: String,
}

/// A file before and after; null where there is none.
#[derive(Serialize, ToSchema)]
pub(crate) struct Contents {
    #[schema(value_type = Option<schema::Digest>)]
    before: Option<String>,
    #[schema(value_type = Option<schema::Digest>)]
    after: Option<String>,
    /// As git writes it: `100644`, `100755` or `120000`.
    mode: String,
}

impl From<stead_fs::patch::Contents> for Contents {
    fn from(contents: stead_fs::patch::Contents) -> Self {
        let text = |digest: Option<stead_fs::Digest>| digest.map(|digest| digest.to_string());
        Self { before: text(contents.before), after: text(contents.after), mode: contents.mode }
    }
}

impl From<stead_fs::patch::Patch> for Diff {
    fn from(patch: stead_fs::patch::Patch) -> Self {
        let texts = |paths: Vec<WorkspacePath>| paths.iter().map(ToString::to_string).collect();
        let contents = patch.contents.into_iter().map(|(path, contents)| (path.to_string(), contents.into())).collect();
        Self { changed: texts(patch.changed), unshown: texts(patch.unshown), contents, patch: patch.text }
    }
}
