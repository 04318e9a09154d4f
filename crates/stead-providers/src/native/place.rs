//! Where everything of one server's native workspaces is, and what a box is told of it.
//!
//! `boxes/<id>` is the box: its record, its socket, its lineage. `volumes/<id>` is what it wrote, which other workspaces may stand on and which
//! may therefore outlive the box. `layers` is what all share.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use stead_box::{BoxError, BoxSpec, Ids, LayerSpec, Limits, RunningBox, UidRanges, Volume};
use stead_core::WorkspaceId;
use stead_core::command::CreateOrder;

use super::lineage::{LayerRef, Lineage};
use crate::boxed::Scratch;
use crate::error::ProviderError;
use crate::images::Images;
use crate::layers::{LayerKey, LayerStore};

/// What a server tells its native provider.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// Everything is kept below it; only the server's user may read it.
    pub home: PathBuf,
    /// Which server this is: letters, digits, `_` and `-`. Boxes of another are never touched.
    pub instance: String,
    /// The `stead-init` program.
    pub init: PathBuf,
}

pub(super) struct Place {
    pub(super) config: NativeConfig,
    pub(super) ranges: UidRanges,
    scratch: Scratch,
    root: bool,
}

impl Place {
    pub(super) fn new(config: NativeConfig) -> Self {
        let ranges = UidRanges::new(config.home.join("uids"));
        let scratch = Scratch::new(config.home.join("spool"));
        Self { config, ranges, scratch, root: stead_box::runs_as_root() }
    }

    /// Whether boxes can be made, as far as that can be told without making one.
    pub(super) fn check(&self) -> Result<(), String> {
        let (init, home) = (&self.config.init, &self.config.home);
        if !init.is_file() {
            return Err(format!(
                "there is no stead-init at {}; build it with cargo build -p stead-box",
                init.display()
            ));
        }
        fs::create_dir_all(self.boxes()).map_err(|error| format!("cannot use {}: {error}", home.display()))
    }

    pub(super) fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    pub(super) fn boxes(&self) -> PathBuf {
        self.config.home.join("boxes")
    }

    pub(super) fn volumes(&self) -> PathBuf {
        self.config.home.join("volumes")
    }

    pub(super) fn directory(&self, id: WorkspaceId) -> PathBuf {
        self.boxes().join(id.to_string())
    }

    /// Where the volume of a workspace is, and what lies beside it.
    pub(super) fn volume(&self, id: &str) -> PathBuf {
        self.volumes().join(id)
    }

    pub(super) fn beside(&self, volume: &str, number: u32) -> PathBuf {
        self.volume(volume).join(format!("l{number}"))
    }

    pub(super) fn take_ids(&self, id: WorkspaceId) -> Result<Ids, ProviderError> {
        Ok(if self.root { Ids::Range { first: self.ranges.take(&id.to_string())? } } else { Ids::Own })
    }

    pub(super) fn give_back_ids(&self, id: WorkspaceId, ids: Ids) -> Result<(), ProviderError> {
        match ids {
            Ids::Range { first } => Ok(self.ranges.give_back_range(first, &id.to_string())?),
            Ids::Own => Ok(()),
        }
    }

    pub(super) fn start(&self, spec: &BoxSpec) -> Result<RunningBox, BoxError> {
        stead_box::resume(&self.config.init, spec)
    }

    /// What a layer is to a box.
    fn layer(&self, layers: &LayerStore, layer: &LayerRef) -> Result<LayerSpec, ProviderError> {
        Ok(match layer {
            LayerRef::Shared { key } => {
                let unknown = || BoxError::Gone { reason: "a layer's name cannot be read" };
                let key = LayerKey::parse(key).ok_or_else(unknown)?;
                LayerSpec::Directory { path: layers.layer(key)?.tree }
            }
            LayerRef::Beside { volume, number } => LayerSpec::Directory { path: self.beside(volume, *number) },
            LayerRef::Generation { volume, number, ids } => {
                LayerSpec::Generation { volume_directory: self.volume(volume), number: *number, ids: *ids }
            }
        })
    }

    /// The whole order for a box. `kept` are the generations of its own volume that somebody stands on.
    pub(super) fn spec(
        &self,
        order: &CreateOrder,
        lineage: &Lineage,
        (layers, images): (&LayerStore, &Images),
        kept: Vec<u32>,
    ) -> Result<BoxSpec, ProviderError> {
        let id = order.workspace.to_string();
        let specs =
            |refs: &[LayerRef]| refs.iter().map(|layer| self.layer(layers, layer)).collect::<Result<Vec<_>, _>>();
        let limits = limits(order);
        Ok(BoxSpec {
            directory: self.directory(order.workspace),
            volume_directory: self.volume(&id),
            instance: self.config.instance.clone(),
            ids: lineage.ids,
            base: match &lineage.image {
                Some(image) => Some(images.root(image)?),
                None => host_root(order)?,
            },
            layers: specs(&lineage.layers)?,
            compared: lineage.began_with.as_deref().map(specs).transpose()?,
            bound: lineage.bound.clone(),
            // Without a limit there is nothing an image would be good for.
            volume: if self.root && limits.disk_bytes.is_some() { Volume::Image } else { Volume::Directory },
            generation: lineage.generation,
            kept_generations: kept,
            templates: Some(self.config.home.join("templates")),
            limits,
            env: env(order, lineage),
            id,
        })
    }
}

/// What the image says, and over it what the session says.
pub(super) fn env(order: &CreateOrder, lineage: &Lineage) -> BTreeMap<String, String> {
    let mut env = lineage.image.as_ref().map(|image| image.env.clone()).unwrap_or_default();
    env.extend(order.env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
    env
}

/// An unpacked root of the host's; `None` if the order names none.
pub(super) fn host_root(order: &CreateOrder) -> Result<Option<PathBuf>, ProviderError> {
    let Some(named) = &order.base_image else { return Ok(None) };
    let root = PathBuf::from(named);
    match root.is_absolute() {
        true if root.is_dir() => Ok(Some(root)),
        true => Err(ProviderError::BaseImage { reason: format!("base_image {named:?} is no directory of this host") }),
        false => {
            let reason =
                "no image of that name was imported, and it is no absolute path of an unpacked root".to_owned();
            Err(ProviderError::NoImage { image: named.clone(), reason })
        }
    }
}

pub(super) fn limits(order: &CreateOrder) -> Limits {
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
