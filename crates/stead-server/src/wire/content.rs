//! Content: versions, files, snapshots.

use std::collections::BTreeMap;

use serde::Serialize;
use stead_core::content::{Fault, Snapshot};
use stead_core::{Name, Timestamp};
use stead_engine::content::TreeFile;
use stead_engine::content::tree::FileMode;
use stead_engine::ops;
use utoipa::ToSchema;

use crate::schema;

/// One version of content. It never changes.
#[derive(Serialize, ToSchema)]
pub(crate) struct ContentVersion {
    #[schema(value_type = schema::Name)]
    pub(crate) name: Name,
    #[schema(minimum = 1)]
    pub(crate) version: u64,
    /// The digest of the whole tree.
    #[schema(value_type = schema::Digest)]
    root_hash: String,
    files: u64,
    bytes: u64,
    /// Whether a session can adopt it.
    valid: bool,
    warnings: Vec<ContentFault>,
    faults: Vec<ContentFault>,
    pushed_by: String,
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
}

/// One thing worth telling about one place of one file; line 0 is the file as a whole.
#[derive(Serialize, ToSchema)]
pub(crate) struct ContentFault {
    path: String,
    line: u32,
    column: u32,
    message: String,
}

impl From<Fault> for ContentFault {
    fn from(fault: Fault) -> Self {
        let colon = if fault.field.is_empty() { "" } else { ": " };
        let message = format!("{}{colon}{}", fault.field, fault.message);
        Self { path: fault.path, line: fault.line, column: fault.column, message }
    }
}

impl From<ops::ContentVersion> for ContentVersion {
    fn from(version: ops::ContentVersion) -> Self {
        Self {
            name: version.name,
            version: version.version,
            root_hash: version.root_hash.to_string(),
            files: version.files,
            bytes: version.bytes,
            valid: version.faults.is_empty(),
            warnings: version.warnings.into_iter().map(ContentFault::from).collect(),
            faults: version.faults.into_iter().map(ContentFault::from).collect(),
            pushed_by: version.pushed_by,
            created_at: version.created_at,
        }
    }
}

/// A name with all its versions, oldest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct ContentHistory {
    #[schema(value_type = schema::Name)]
    pub(crate) name: Name,
    /// The newest version.
    #[schema(minimum = 1)]
    pub(crate) head: u64,
    pub(crate) versions: Vec<ContentVersion>,
}

/// A version with its files.
#[derive(Serialize, ToSchema)]
pub(crate) struct ContentTree {
    #[serde(flatten)]
    pub(crate) version: ContentVersion,
    /// Sorted by path.
    pub(crate) tree: Vec<ContentFile>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ContentFile {
    path: String,
    #[schema(value_type = schema::Digest)]
    hash: String,
    size: u64,
    #[schema(value_type = String)]
    mode: FileMode,
}

impl From<TreeFile> for ContentFile {
    fn from(file: TreeFile) -> Self {
        Self { path: file.path.to_string(), hash: file.hash.to_string(), size: file.size, mode: file.mode }
    }
}

/// What differs between two versions, sorted by path.
#[derive(Serialize, ToSchema)]
pub(crate) struct ContentDiff {
    #[schema(value_type = schema::Name)]
    pub(crate) name: Name,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) changes: Vec<ContentChange>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ContentChange {
    path: String,
    /// `added`, `removed` or `changed`.
    kind: &'static str,
    #[schema(required = true)]
    before: Option<ContentFile>,
    #[schema(required = true)]
    after: Option<ContentFile>,
}

impl From<ops::ContentChange> for ContentChange {
    fn from(change: ops::ContentChange) -> Self {
        let kind = match (&change.before, &change.after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        };
        let (before, after) = (change.before.map(ContentFile::from), change.after.map(ContentFile::from));
        Self { path: change.path.to_string(), kind, before, after }
    }
}

/// A version as a session holds it.
#[derive(Serialize, ToSchema)]
pub(crate) struct ContentSnapshot {
    #[schema(value_type = schema::Name)]
    workspace: Name,
    version: u64,
    #[schema(value_type = schema::Digest)]
    root_hash: String,
    /// The one in use unless a run says otherwise.
    #[schema(required = true)]
    prompt_pack: Option<String>,
    #[schema(required = true)]
    tool_catalog: Option<String>,
    prompt_packs: Vec<String>,
    /// Each with the tools it shows.
    tool_catalogs: BTreeMap<String, Vec<String>>,
}

impl From<&Snapshot> for ContentSnapshot {
    fn from(snapshot: &Snapshot) -> Self {
        let tools = |(name, catalog): (&String, &stead_core::content::snapshot::CatalogRef)| {
            (name.clone(), catalog.tools.keys().cloned().collect())
        };
        Self {
            workspace: snapshot.workspace.clone(),
            version: snapshot.version,
            root_hash: snapshot.root_hash.clone(),
            prompt_pack: snapshot.prompt_pack.clone(),
            tool_catalog: snapshot.tool_catalog.clone(),
            prompt_packs: snapshot.prompt_packs.keys().cloned().collect(),
            tool_catalogs: snapshot.tool_catalogs.iter().map(tools).collect(),
        }
    }
}

/// A published JSON Schema.
#[derive(Serialize, ToSchema)]
pub(crate) struct ContentSchema {
    pub(crate) name: &'static str,
    pub(crate) path: String,
}
