//! Content: named, versioned trees of prompts, tool descriptors and context files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stead_core::content::{Fault, Snapshot};
use stead_core::{Name, Timestamp};
use utoipa::ToSchema;

use crate::schema;

/// One version of content. A version never changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentVersion {
    /// Name of the content.
    #[schema(value_type = schema::Name)]
    pub name: Name,
    /// Version number, counted from 1 for each name.
    #[schema(minimum = 1)]
    pub version: u64,
    /// Hash of the whole tree. Equal trees have equal hashes.
    #[schema(value_type = schema::Digest)]
    pub root_hash: String,
    /// Number of files.
    pub files: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// True if the version has no faults, so that sessions can adopt it.
    pub valid: bool,
    /// Findings that do not make the version invalid.
    pub warnings: Vec<ContentFault>,
    /// Findings that make the version invalid. Empty if `valid` is true.
    pub faults: Vec<ContentFault>,
    /// Caller who pushed the version.
    pub pushed_by: String,
    /// Time of the push.
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
}

/// A finding at one position of one content file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentFault {
    /// Path of the file in the tree.
    pub path: String,
    /// Line number, counted from 1. 0 means the file as a whole.
    pub line: u32,
    /// Column number in the line.
    pub column: u32,
    /// Description of the finding. It starts with the field's name if the finding is about one
    /// field.
    pub message: String,
}

impl From<Fault> for ContentFault {
    fn from(fault: Fault) -> Self {
        let colon = if fault.field.is_empty() { "" } else { ": " };
        let message = format!("{}{colon}{}", fault.field, fault.message);
        Self { path: fault.path, line: fault.line, column: fault.column, message }
    }
}

/// All versions of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentHistory {
    /// Name of the content.
    #[schema(value_type = schema::Name)]
    pub name: Name,
    /// Number of the newest version.
    #[schema(minimum = 1)]
    pub head: u64,
    /// All versions, oldest first.
    pub versions: Vec<ContentVersion>,
}

/// A version together with the list of its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentTree {
    #[serde(flatten)]
    pub version: ContentVersion,
    /// Files of the version, sorted by path.
    pub tree: Vec<ContentFile>,
}

/// Mode of a content file: `plain`, or `executable` if its executable bit is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ContentFileMode)]
pub enum FileMode {
    Plain,
    Executable,
}

/// One file of a content version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentFile {
    /// Path in the tree.
    pub path: String,
    /// Hash of the file's bytes.
    #[schema(value_type = schema::Digest)]
    pub hash: String,
    /// Size in bytes.
    pub size: u64,
    /// Mode of the file: `plain` or `executable`.
    pub mode: FileMode,
}

/// The differences between two versions of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentDiff {
    /// Name of the content.
    #[schema(value_type = schema::Name)]
    pub name: Name,
    /// Version that the comparison starts from.
    pub from: u64,
    /// Version that it is compared with.
    pub to: u64,
    /// Files that differ, sorted by path. Empty if the versions have equal files.
    pub changes: Vec<ContentChange>,
}

/// Kind of a difference: the file was added, removed or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ContentChangeKind)]
pub enum ChangeKind {
    Added,
    Removed,
    Changed,
}

/// One file that differs between two versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentChange {
    /// Path in the tree.
    pub path: String,
    /// Kind of the difference.
    pub kind: ChangeKind,
    /// The file in the `from` version; `null` if it was added.
    #[schema(required = true)]
    pub before: Option<ContentFile>,
    /// The file in the `to` version; `null` if it was removed.
    #[schema(required = true)]
    pub after: Option<ContentFile>,
}

/// A content version that a session has loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentSnapshot {
    /// Name of the content.
    #[schema(value_type = schema::Name)]
    pub workspace: Name,
    /// Version number.
    pub version: u64,
    /// Hash of the whole tree.
    #[schema(value_type = schema::Digest)]
    pub root_hash: String,
    /// Prompt pack that runs use unless they name another; `null` if there is none.
    #[schema(required = true)]
    pub prompt_pack: Option<String>,
    /// Tool catalog that runs use unless they name another; `null` if there is none.
    #[schema(required = true)]
    pub tool_catalog: Option<String>,
    /// Names of all prompt packs in this version.
    pub prompt_packs: Vec<String>,
    /// All tool catalogs by name, each with the names of its tools.
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

/// A published JSON Schema for one kind of content file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ContentSchema {
    /// Name of the schema.
    pub name: String,
    /// URL path at which the server serves the schema.
    pub path: String,
}
