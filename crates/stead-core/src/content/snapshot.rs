//! One version of content as a session holds it: names and references without texts.
//!
//! Every reference is the hash of a blob, so a snapshot always refers to the same bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::catalog::vendor_name;
use super::fault::{Stage, SyncFault};
use super::options::{Options, ToolChoice};
use super::profile;
use super::resource::{PackArgument, ResourceRef};
use crate::Name;

/// The identity of a version, without its contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotRef {
    pub workspace: Name,
    pub version: u64,
    pub root_hash: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub workspace: Name,
    pub version: u64,
    pub root_hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_ref: Option<String>,
    pub prompt_packs: BTreeMap<String, PackRef>,
    pub tool_catalogs: BTreeMap<String, CatalogRef>,
    /// Files that clients can read, by their addresses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, ResourceRef>,
    /// The defaults of this session. A run may choose others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_pack: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_catalog: Option<String>,
}

/// A reference to a pack's messages in the blob store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackRef {
    #[serde(rename = "ref")]
    pub digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub messages: u64,
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "Options::is_empty")]
    pub options: Options,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PackArgument>,
}

/// A reference to a catalog's descriptors in the blob store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogRef {
    #[serde(rename = "ref")]
    pub digest: String,
    /// From the name of each tool to the hash of its descriptor.
    pub tools: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
}

impl CatalogRef {
    /// Finds a tool by its name or by its vendor name.
    pub fn find(&self, called: &str) -> Option<(&str, &str)> {
        let found = self.tools.get_key_value(called);
        let found = found.or_else(|| self.tools.iter().find(|(name, _)| vendor_name(name) == called));
        found.map(|(name, hash)| (name.as_str(), hash.as_str()))
    }
}

impl Snapshot {
    pub fn reference(&self) -> SnapshotRef {
        let Self { workspace, version, root_hash, .. } = self;
        SnapshotRef { workspace: workspace.clone(), version: *version, root_hash: root_hash.clone() }
    }

    /// Chooses the pack and the catalog by name. Without a name the index's default stays.
    pub fn select(&mut self, prompt_pack: Option<&str>, tool_catalog: Option<&str>) -> Result<(), SyncFault> {
        if let Some(name) = prompt_pack {
            if !self.prompt_packs.contains_key(name) {
                return Err(SyncFault::new(Stage::PromptPack, self.missing("prompt pack", name)));
            }
            self.prompt_pack = Some(name.to_owned());
        }
        if let Some(name) = tool_catalog {
            if !self.has_catalog(name) {
                return Err(SyncFault::new(Stage::ToolCatalog, self.missing("tool catalog", name)));
            }
            self.tool_catalog = Some(name.to_owned());
        }
        Ok(())
    }

    pub fn has_catalog(&self, name: &str) -> bool {
        self.tool_catalogs.contains_key(name) || profile::find(name).is_some()
    }

    fn missing(&self, what: &str, name: &str) -> String {
        format!("{} version {} has no {what} '{name}'", self.workspace, self.version)
    }
}

/// Finds a catalog by name, first in the content, then among the built-in ones.
pub fn catalog(snapshot: Option<&Snapshot>, name: &str) -> Option<CatalogRef> {
    let own = snapshot.and_then(|snapshot| snapshot.tool_catalogs.get(name)).cloned();
    own.or_else(|| profile::find(name).map(profile::Profile::reference))
}
