//! The directories of one provider's overlay workspaces, and the specs of boxes over them.
//!
//! `boxes/<id>` holds the box: its record, socket and lineage. `volumes/<id>` holds what it wrote.
//! Other workspaces may use that as a layer, so it may outlive the box. `layers` is shared by all.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use stead_box::{BoxError, BoxSpec, Ids, LayerSpec, Limits, Network, UidRanges, Volume};
use stead_core::WorkspaceId;
use stead_core::command::CreateOrder;
use stead_core::network::Reach;

use super::lineage::{self, Durability, HomeRef, LayerRef, Lineage};
use crate::contract::error::ProviderError;
use crate::guest::Scratch;
use crate::overlay::layer_store::{LayerKey, LayerStore};

pub(crate) struct Directories {
    pub(crate) home: PathBuf,
    /// Identifies this server. Boxes of other instances are never touched.
    pub(crate) instance: String,
    /// Instances of homes that this one is a copy of.
    former: Vec<String>,
    pub(crate) ranges: UidRanges,
    scratch: Scratch,
    pub(crate) root: bool,
}

impl Directories {
    /// Other providers on this host may use the same `uids`: no two boxes get the same ids.
    pub(crate) fn new(home: PathBuf, (instance, former): (String, Vec<String>), uids: PathBuf) -> Self {
        let scratch = Scratch::new(home.join("spool"));
        scratch.sweep();
        Self { home, instance, former, ranges: UidRanges::new(uids), scratch, root: stead_box::runs_as_root() }
    }

    /// Takes over the files of a workspace if they were copied from another home. The box in the
    /// copied record still belongs to that home. Returns a description of its processes and
    /// cgroups.
    pub(super) fn take_over(&self, directory: &Path, lineage: &mut Lineage) -> Result<Option<String>, ProviderError> {
        let foreign = stead_box::disown(directory, &self.former)?;
        if self.former.contains(&lineage.instance) {
            lineage.instance.clone_from(&self.instance);
            lineage.write(directory, Durability::Now).map_err(|error| host("write", directory, error))?;
        }
        Ok(foreign.and_then(|record| record.remains()))
    }

    pub(crate) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    pub(crate) fn boxes(&self) -> PathBuf {
        self.home.join("boxes")
    }

    pub(super) fn volumes(&self) -> PathBuf {
        self.home.join("volumes")
    }

    pub(crate) fn directory(&self, id: WorkspaceId) -> PathBuf {
        self.boxes().join(id.to_string())
    }

    /// The directory of a workspace's volume and of its own layers.
    pub(super) fn volume(&self, id: &str) -> PathBuf {
        self.volumes().join(id)
    }

    /// Syncs everything that leads to the files of a workspace: its lineage, its volume's entry,
    /// and the directories above both.
    pub(super) fn sync(&self, id: WorkspaceId) -> io::Result<()> {
        let volume = self.volume(&id.to_string());
        Lineage::sync(&self.directory(id))?;
        [volume, self.boxes(), self.volumes(), self.home.clone()].iter().try_for_each(|path| lineage::sync(path))?;
        // Boxes of an ordinary user take no uid ranges.
        match self.ranges.sync() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            synced => synced,
        }
    }

    pub(super) fn own_layer(&self, volume: &str, number: u32) -> PathBuf {
        self.volume(volume).join(format!("l{number}"))
    }

    pub(crate) fn take_ids(&self, id: WorkspaceId) -> Result<Ids, ProviderError> {
        Ok(if self.root { Ids::Range { first: self.ranges.take(&id.to_string())? } } else { Ids::Own })
    }

    pub(super) fn give_back_ids(&self, id: WorkspaceId, ids: Ids) -> Result<(), ProviderError> {
        match ids {
            Ids::Range { first } => Ok(self.ranges.give_back_range(first, &id.to_string())?),
            Ids::Own => Ok(()),
        }
    }

    /// Converts a layer reference to the form a box takes.
    fn layer(&self, layers: &LayerStore, layer: &LayerRef) -> Result<LayerSpec, ProviderError> {
        Ok(match layer {
            LayerRef::Shared { key } => {
                let unknown = || BoxError::Gone { reason: "a layer's name cannot be read" };
                let key = LayerKey::parse(key).ok_or_else(unknown)?;
                LayerSpec::Directory { path: layers.layer(key)?.tree }
            }
            LayerRef::Own { volume, number } => LayerSpec::Directory { path: self.own_layer(volume, *number) },
            LayerRef::Generation { volume, number, ids } => {
                LayerSpec::Generation { volume_directory: self.volume(volume), number: *number, ids: *ids }
            }
        })
    }

    fn home_layer(&self, home: &HomeRef) -> LayerSpec {
        LayerSpec::Home { volume_directory: self.volume(&home.volume), ids: home.ids }
    }

    /// Returns the spec of a box over a lineage's layers, without a root and without environment.
    /// `kept` lists the generations of its own volume that are still in use.
    pub(crate) fn spec(
        &self,
        order: &CreateOrder,
        lineage: &Lineage,
        layers: &LayerStore,
        kept: Vec<u32>,
    ) -> Result<BoxSpec, ProviderError> {
        let id = order.workspace.to_string();
        let specs =
            |refs: &[LayerRef]| refs.iter().map(|layer| self.layer(layers, layer)).collect::<Result<Vec<_>, _>>();
        Ok(BoxSpec {
            directory: self.directory(order.workspace),
            volume_directory: self.volume(&id),
            instance: self.instance.clone(),
            ids: lineage.ids,
            base: None,
            layers: specs(&lineage.layers)?,
            compared: lineage.began_with.as_deref().map(specs).transpose()?,
            home_layers: lineage.home.iter().map(|home| self.home_layer(home)).collect(),
            bound: lineage.bound.clone(),
            volume: if self.root { Volume::Image } else { Volume::Directory },
            generation: lineage.generation,
            kept_generations: kept,
            templates: Some(self.home.join("templates")),
            limits: limits(order),
            network: match order.network {
                Reach::Captured => Network::Captured,
                Reach::None | Reach::Named => Network::None,
            },
            trust: None,
            env: std::collections::BTreeMap::new(),
            id,
        })
    }
}

/// Converts the limits of an order to the kernel's units.
pub(crate) fn limits(order: &CreateOrder) -> Limits {
    Limits {
        cpu_millis: order.limits.cpu.as_ref().map(stead_core::quantity::Cpu::millis),
        memory_bytes: order.limits.memory.as_ref().map(stead_core::quantity::ByteSize::bytes),
        pids: order.limits.pids,
        disk_bytes: order.limits.disk.as_ref().map(stead_core::quantity::ByteSize::bytes),
        inodes: None,
    }
}

pub(super) fn make_private(path: &Path) -> Result<(), ProviderError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| host("make", path, error))
}

pub(super) fn host(doing: &'static str, path: &Path, source: io::Error) -> ProviderError {
    BoxError::Host { doing, path: path.to_owned(), source }.into()
}
