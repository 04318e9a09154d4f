//! The layers of a workspace's tree, and the writable generation of its volume above them.
//!
//! A lineage is kept in the box's directory (`workspace.json`) and in memory. Invariant: everything
//! that a lineage names exists as long as the lineage does. A volume is removed only when no
//! lineage names it, and the workspace holds its shared layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use stead_box::Ids;

use crate::overlay::images::HeldImage;

const FILE: &str = "workspace.json";

/// A reference to one layer, by where it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum LayerRef {
    /// In the layer store.
    Shared { key: String },
    /// A directory next to a workspace's volume, written once by the server.
    #[serde(rename = "beside")]
    Own { volume: String, number: u32 },
    /// The files that a workspace wrote to one generation of its volume.
    Generation { volume: String, number: u32, ids: Ids },
}

impl LayerRef {
    /// The workspace in whose volume directory the layer is.
    pub(super) fn volume(&self) -> Option<&str> {
        match self {
            Self::Shared { .. } => None,
            Self::Own { volume, .. } | Self::Generation { volume, .. } => Some(volume),
        }
    }
}

/// A reference to the home directory in a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HomeRef {
    pub(crate) volume: String,
    pub(crate) ids: Ids,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lineage {
    /// The server that made it.
    pub(crate) instance: String,
    pub(crate) ids: Ids,
    /// From the lowest to the topmost.
    pub(crate) layers: Vec<LayerRef>,
    /// The layers at the start of the session.
    pub(crate) began_with: Option<Vec<LayerRef>>,
    /// Why the files at the start could not be kept, so that no diff is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) uncompared: Option<String>,
    /// The generation that is writable now.
    pub(crate) generation: u32,
    /// Number of the next own layer.
    #[serde(rename = "next_beside")]
    pub(super) next_own_layer: u32,
    /// A host directory that replaces the layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bound: Option<stead_box::Bound>,
    /// The home directory of a kept setup result, below the workspace's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) home: Option<HomeRef>,
    /// The image of the root. It stays the same when the image's name moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<HeldImage>,
    /// The box was a warm box, now claimed by a session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) claimed: bool,
    pub(super) snapshots: BTreeMap<String, Vec<LayerRef>>,
    /// Number of bytes copied from the volume to layers next to it.
    #[serde(default)]
    pub(super) copied_bytes: u64,
}

/// The time at which a change must be on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The session has not begun: after a crash of the host it starts from the beginning.
    Later,
    Now,
}

/// Syncs a file, or the entries of a directory.
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
            next_own_layer: 0,
            bound: None,
            home: None,
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

    /// Syncs changes that were written with [`Durability::Later`].
    pub(super) fn sync(directory: &Path) -> io::Result<()> {
        sync(&directory.join(FILE))?;
        sync(directory)
    }

    /// All layers that the lineage names.
    pub(super) fn refs(&self) -> impl Iterator<Item = &LayerRef> {
        let kept = self.snapshots.values().chain(&self.began_with);
        self.layers.iter().chain(kept.flatten())
    }

    pub(super) fn volumes(&self) -> BTreeSet<&str> {
        let home = self.home.as_ref().map(|home| home.volume.as_str());
        self.refs().filter_map(LayerRef::volume).chain(home).collect()
    }
}
