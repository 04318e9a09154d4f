//! Content: versions, files, snapshots.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stead_core::content::{Fault, Snapshot};
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::schema;

/// One version of content. It never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentVersion {
    #[schema(value_type = schema::Name)]
    pub name: Name,
    #[schema(minimum = 1)]
    pub version: u64,
    /// The digest of the whole tree.
    #[schema(value_type = schema::Digest)]
    pub root_hash: String,
    pub files: u64,
    pub bytes: u64,
    /// Whether a session can adopt it.
    pub valid: bool,
    pub warnings: Vec<ContentFault>,
    pub faults: Vec<ContentFault>,
    pub pushed_by: String,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
}

/// One thing worth telling about one place of one file; line 0 is the file as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentFault {
    pub path: String,
    pub line: u32,
    pub column: u32,
    pub message: String,
}

impl From<Fault> for ContentFault {
    fn from(fault: Fault) -> Self {
        let colon = if fault.field.is_empty() { "" } else { ": " };
        let message = format!("{}{colon}{}", fault.field, fault.message);
        Self { path: fault.path, line: fault.line, column: fault.column, message }
    }
}

/// A name with all its versions, oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentHistory {
    #[schema(value_type = schema::Name)]
    pub name: Name,
    /// The newest version.
    #[schema(minimum = 1)]
    pub head: u64,
    pub versions: Vec<ContentVersion>,
}

/// A version with its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentTree {
    #[serde(flatten)]
    pub version: ContentVersion,
    /// Sorted by path.
    pub tree: Vec<ContentFile>,
}

/// Whether a file of content can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ContentFileMode)]
pub enum FileMode {
    Plain,
    Executable,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentFile {
    pub path: String,
    #[schema(value_type = schema::Digest)]
    pub hash: String,
    pub size: u64,
    pub mode: FileMode,
}

/// What differs between two versions, sorted by path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentDiff {
    #[schema(value_type = schema::Name)]
    pub name: Name,
    pub from: u64,
    pub to: u64,
    pub changes: Vec<ContentChange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ContentChangeKind)]
pub enum ChangeKind {
    Added,
    Removed,
    Changed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentChange {
    pub path: String,
    pub kind: ChangeKind,
    #[schema(required = true)]
    pub before: Option<ContentFile>,
    #[schema(required = true)]
    pub after: Option<ContentFile>,
}

/// A version as a session holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentSnapshot {
    #[schema(value_type = schema::Name)]
    pub workspace: Name,
    pub version: u64,
    #[schema(value_type = schema::Digest)]
    pub root_hash: String,
    /// The one in use unless a run says otherwise.
    #[schema(required = true)]
    pub prompt_pack: Option<String>,
    #[schema(required = true)]
    pub tool_catalog: Option<String>,
    pub prompt_packs: Vec<String>,
    /// Each with the tools it shows.
    pub tool_catalogs: BTreeMap<String, Vec<String>>,
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentSchema {
    pub name: String,
    pub path: String,
}
