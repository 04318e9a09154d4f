//! What a workspace's tree is made of: layers below, one generation of its volume above.
//!
//! It is kept in the box's directory (`workspace.json`) and in memory. The invariant: whatever a lineage names exists for as long as the lineage
//! does, since a volume is removed only when no lineage names it, and a shared layer is held under the workspace's name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use stead_box::Ids;

use crate::images::HeldImage;

const FILE: &str = "workspace.json";

/// One layer, by where it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum LayerRef {
    /// In the layer store.
    Shared { key: String },
    /// A directory beside a workspace's volume, written once by the server.
    Beside { volume: String, number: u32 },
    /// What a workspace wrote, up to some moment.
    Generation { volume: String, number: u32, ids: Ids },
}

impl LayerRef {
    /// The workspace whose volume it is kept with.
    pub(super) fn volume(&self) -> Option<&str> {
        match self {
            Self::Shared { .. } => None,
            Self::Beside { volume, .. } | Self::Generation { volume, .. } => Some(volume),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lineage {
    /// Which server made it.
    pub(crate) instance: String,
    pub(crate) ids: Ids,
    /// The topmost last.
    pub(crate) layers: Vec<LayerRef>,
    /// What the session began with.
    pub(crate) began_with: Option<Vec<LayerRef>>,
    /// Why there is no such copy to compare with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) uncompared: Option<String>,
    /// The one that is written.
    pub(crate) generation: u32,
    /// The next directory beside the volume.
    pub(super) next_beside: u32,
    /// A host directory that takes the place of the layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bound: Option<stead_box::Bound>,
    /// The image that is its root, and stays it whatever the name means later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<HeldImage>,
    /// Its box was kept ready, and is a session's now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) claimed: bool,
    pub(super) snapshots: BTreeMap<String, Vec<LayerRef>>,
    /// How many bytes were copied out of the volume to be kept beside it.
    #[serde(default)]
    pub(super) copied_bytes: u64,
}

/// Whether the disk must have it before anybody relies on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The session has not begun: after a crash of the host it starts anew.
    Later,
    Now,
}

/// Waits until the disk has a file, or the entries of a directory.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl Lineage {
    pub(crate) fn new(instance: &str, ids: Ids) -> Self {
        Self {
            instance: instance.to_owned(),
            ids,
            layers: Vec::new(),
            began_with: None,
            uncompared: None,
            generation: 0,
            next_beside: 0,
            bound: None,
            image: None,
            claimed: false,
            snapshots: BTreeMap::new(),
            copied_bytes: 0,
        }
    }

    pub(super) fn read(directory: &Path) -> io::Result<Option<Self>> {
        match fs::read(directory.join(FILE)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn write(&self, directory: &Path, durability: Durability) -> io::Result<()> {
        let new = directory.join("workspace.json.new");
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        if durability == Durability::Now {
            file.sync_all()?;
        }
        fs::rename(new, directory.join(FILE))?;
        if durability == Durability::Now {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }

    /// Waits until the disk has what was written for later.
    pub(super) fn sync(directory: &Path) -> io::Result<()> {
        sync(&directory.join(FILE))?;
        sync(directory)
    }

    /// Everything it names.
    pub(super) fn refs(&self) -> impl Iterator<Item = &LayerRef> {
        let kept = self.snapshots.values().chain(&self.began_with);
        self.layers.iter().chain(kept.flatten())
    }

    pub(super) fn volumes(&self) -> BTreeSet<&str> {
        self.refs().filter_map(LayerRef::volume).collect()
    }
}
