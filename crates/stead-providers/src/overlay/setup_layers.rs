//! Uses and keeps setup results in an overlay workspace.
//!
//! After the setup commands the workspace hands its whole volume over: the generation they wrote
//! becomes a layer, the home directory a layer of the home, and the workspace goes on with an empty
//! volume of its own. So keeping copies nothing, and a kept result has no files of a session.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stead_core::setup_cache::{SetupInputs, SetupKey};
use stead_fs::{ContentHash, DiskFs, Filesystem as _, FsError, WorkspacePath};

use super::directories::{host, make_private};
use super::keep::Patience;
use super::lineage::{Durability, HomeRef, LayerRef, Lineage};
use super::overlay_box::{OverlayBox, end_unused};
use super::own_layers;
use super::setup_store::{self, KeptSetup};
use super::usage::measure;
use super::workspaces::{BoxState, sync_files};
use crate::contract::error::ProviderError;
use crate::contract::setup_cache::{KeepSetupOrder, SetupKept, SetupPosition};
use crate::guest::SetupLayers;

/// Directories of a root whose modification times change when programs are installed there.
const PROGRAMS: [&str; 6] =
    ["usr/bin", "usr/lib", "usr/sbin", "usr/local/bin", "usr/local/lib", "usr/lib/x86_64-linux-gnu"];

/// Maximum size of a file whose hash is part of a key.
const MOST_HASHED: u64 = 64 << 20;

impl SetupLayers for OverlayBox {
    fn inputs(&self, files: &[String]) -> Result<SetupInputs, ProviderError> {
        let lineage = self.lineage()?;
        let root = match (&self.made.image_digest, &self.made.image) {
            (Some(digest), _) => digest.clone(),
            (None, Some(directory)) => stamp_of_root(Path::new(directory)),
            (None, None) => stamp_of_root(Path::new("/")),
        };
        let files = files.iter().map(|path| self.hash_in_layers(&lineage, path)).collect::<Result<_, _>>()?;
        Ok(SetupInputs { root, files })
    }

    fn restore(&self, key: &SetupKey, place: SetupPosition) -> Result<Option<String>, ProviderError> {
        let mut state = self.lock();
        // The lock keeps the result until this workspace's lineage names it.
        let kept = self.workspaces.setups.lock();
        let Some(setup) = kept.get(key) else { return Ok(None) };
        if state.written || self.lineage()?.bound.is_some() {
            return Ok(None);
        }
        end_unused(&mut state)?;
        self.begin_over(&mut state, setup, place)?;
        setup_store::touch(&self.workspaces.directories.volume(&setup.id));
        Ok(Some(setup.id.clone()))
    }

    fn keep(&self, order: KeepSetupOrder) -> Result<SetupKept, ProviderError> {
        let mut state = self.lock();
        let lineage = self.lineage()?;
        let own = self.id().to_string();
        let has_generations =
            lineage.layers.iter().any(|layer| matches!(layer, LayerRef::Generation { volume, .. } if *volume == own));
        if lineage.bound.is_some() || has_generations {
            return Ok(refused("the workspace is not made of layers alone"));
        }
        if !self.rest_within(&mut state, Patience::Long)? {
            return Ok(refused("a setup command left processes running; stop them at the end of the setup"));
        }
        let mut kept = self.workspaces.setups.lock();
        if kept.contains_key(&order.key) {
            return Ok(SetupKept::Known);
        }
        let KeepSetupOrder { entry, key, place, about } = order;
        let (id, generation, ids) = (entry, lineage.generation, lineage.ids);
        let mut setup = KeptSetup { id, key, about, generation, ids, bytes: 0 };
        let directory = self.hand_over(&lineage, &setup.id)?;
        self.begin_over(&mut state, &setup, place)?;
        // From here on the session can go on, even if the result cannot be completed.
        let labelled = sync_files(&directory).and_then(|()| {
            setup.bytes = measure(&directory)?;
            setup.write_label(&directory)
        });
        if let Err(error) = labelled {
            return Ok(refused(&format!("its files cannot be kept: {error}")));
        }
        kept.insert(setup.key.clone(), setup);
        Ok(SetupKept::Kept)
    }
}

fn refused(reason: &str) -> SetupKept {
    SetupKept::Refused { reason: reason.to_owned() }
}

impl OverlayBox {
    /// Gives the volume a new name, and the workspace an empty one. Returns the directory of the
    /// volume. The workspace keeps the layers that the server wrote next to the volume.
    fn hand_over(&self, lineage: &Lineage, name: &str) -> Result<PathBuf, ProviderError> {
        let (directories, own) = (&self.workspaces.directories, self.id().to_string());
        let (from, to) = (directories.volume(&own), directories.volume(name));
        fs::rename(&from, &to).map_err(|error| host("keep", &from, error))?;
        make_private(&from)?;
        for number in 0..lineage.next_own_layer {
            let layer = directories.own_layer(name, number);
            if layer.exists() {
                let back = directories.own_layer(&own, number);
                fs::rename(&layer, &back).map_err(|error| host("move", &layer, error))?;
            }
        }
        Ok(to)
    }

    /// Puts a result among the layers. Nothing may be written above them.
    fn begin_over(&self, state: &mut BoxState, setup: &KeptSetup, place: SetupPosition) -> Result<(), ProviderError> {
        let KeptSetup { id, generation, ids, .. } = setup;
        let layer = LayerRef::Generation { volume: id.clone(), number: *generation, ids: *ids };
        self.workspaces.change(self.id(), Durability::Later, |lineage| {
            match place {
                SetupPosition::Above => lineage.layers.push(layer),
                SetupPosition::Below => lineage.layers.insert(0, layer),
            }
            lineage.home = Some(HomeRef { volume: id.clone(), ids: *ids });
            lineage.generation = 0;
        })?;
        state.running = None;
        state.layers_changed(None);
        Ok(())
    }

    /// The hash of a file in the topmost layer that has it; `None` if no layer has it.
    fn hash_in_layers(&self, lineage: &Lineage, path: &str) -> Result<Option<String>, ProviderError> {
        let refused = |source| ProviderError::Files { source };
        let named = Path::new(path);
        let path: WorkspacePath = path.parse().map_err(|error| own_layers::failed(named, io::Error::other(error)))?;
        let own = lineage.layers.iter().rev().filter(|layer| !matches!(layer, LayerRef::Generation { .. }));
        for layer in own {
            let tree = own_layers::path(&self.workspaces, layer)?;
            let files = DiskFs::open(&tree).map_err(|error| own_layers::failed(&tree, error))?;
            match files.stat_entry(&path) {
                Ok(found) if found.size > MOST_HASHED => {
                    let (size, limit) = (found.size, MOST_HASHED);
                    return Err(refused(FsError::TooLarge { path, size, limit }));
                }
                Ok(_) => {
                    let bytes = files.read_bytes(&path).map_err(refused)?;
                    return Ok(Some(ContentHash::of(&bytes).to_string()));
                }
                Err(FsError::NotFound { .. }) => {}
                Err(error) => return Err(refused(error)),
            }
        }
        Ok(None)
    }
}

/// A text that changes when programs are installed in a root or removed from it.
fn stamp_of_root(root: &Path) -> String {
    let mut stamp = format!("root {}", root.display());
    for name in PROGRAMS {
        if let Ok(found) = fs::metadata(root.join(name)) {
            stamp.push_str(&format!(
                " {name}={}:{}:{}.{}",
                found.dev(),
                found.ino(),
                found.mtime(),
                found.mtime_nsec()
            ));
        }
    }
    stamp
}
