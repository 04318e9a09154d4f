//! The layer store: its layers, their holders, and the layers being made.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use stead_box::BoxError;

use super::draft::{LayerDraft, LayerSlot, Making};
use super::holders::Holders;
use super::key::LayerKey;
use super::label;
use super::report::LayerReport;
use crate::contract::error::ProviderError;
use crate::guest::ScratchDirectory;

/// A complete tree, in the layer store or in a scratch directory that this value owns.
#[derive(Debug)]
pub struct Layer {
    pub key: LayerKey,
    /// Never write there.
    pub tree: PathBuf,
    pub report: LayerReport,
    _scratch: Option<ScratchDirectory>,
}

impl Layer {
    pub(super) fn of_scratch(key: LayerKey, directory: ScratchDirectory, report: LayerReport) -> Self {
        Self { key, tree: directory.path().to_owned(), report, _scratch: Some(directory) }
    }
}

/// The layers below one directory.
#[derive(Debug)]
pub struct LayerStore {
    pub(super) directory: PathBuf,
    state: Mutex<State>,
    /// Notified when a layer is complete or its making failed.
    made: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) holders: Holders,
    pub(super) making: HashSet<LayerKey>,
    /// Cached size of each layer.
    pub(super) bytes: BTreeMap<LayerKey, u64>,
}

impl LayerStore {
    /// Opens the store and removes incomplete layers of an interrupted server. The directory is
    /// created on first use.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, ProviderError> {
        let directory = directory.into();
        let holders = Holders::read(&directory.join(".holders")).map_err(|error| host("read", &directory, error))?;
        stead_box::remove(&directory.join(".making"))?;
        let state = State { holders, making: HashSet::new(), bytes: BTreeMap::new() };
        Ok(Self { directory, state: Mutex::new(state), made: Condvar::new() })
    }

    /// Returns the layer of this key, now held by `holder`, or a draft for the caller to write.
    /// Concurrent callers for the same layer wait for the first one. If it fails, the next one gets
    /// a draft. Blocks.
    pub fn prepare(self: &Arc<Self>, key: LayerKey, holder: &str) -> Result<LayerSlot, ProviderError> {
        let mut state = self.lock();
        while state.making.contains(&key) {
            state = self.made.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if self.path(&key).join(label::LABEL).exists() {
            self.note_holder(&mut state, holder, &key)?;
            drop(state);
            return self.layer(key).map(LayerSlot::Ready);
        }
        state.making.insert(key.clone());
        drop(state);
        LayerDraft::stored(Making { store: self.clone(), key }, holder).map(LayerSlot::Empty)
    }

    /// Adds `holder` to an existing layer.
    pub fn hold(&self, key: &LayerKey, holder: &str) -> Result<Layer, ProviderError> {
        let mut state = self.lock();
        if !self.path(key).join(label::LABEL).exists() {
            return Err(ProviderError::NoLayer { key: key.clone() });
        }
        self.note_holder(&mut state, holder, key)?;
        drop(state);
        self.layer(key.clone())
    }

    /// Returns an existing layer without holding it.
    pub fn layer(&self, key: LayerKey) -> Result<Layer, ProviderError> {
        let path = self.path(&key);
        match label::read_label(&path) {
            Ok(read) => {
                label::touch(&path);
                Ok(Layer { tree: path.join(label::TREE), report: read.report, key, _scratch: None })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ProviderError::NoLayer { key }),
            Err(error) => Err(host("read", &path, error)),
        }
    }

    /// The layers that a holder has.
    pub fn held_by(&self, holder: &str) -> Vec<LayerKey> {
        self.lock().holders.of(holder)
    }

    /// All holders of this layer.
    pub fn holders_of(&self, key: &LayerKey) -> Vec<String> {
        self.lock().holders.with(key)
    }

    /// Releases all layers of a holder. No-op if it has none.
    pub fn release(&self, holder: &str) -> Result<(), ProviderError> {
        let mut state = self.lock();
        state.holders.remove(holder).map_err(|error| host("release", &self.directory, error))
    }

    pub(super) fn note_holder(&self, state: &mut State, holder: &str, key: &LayerKey) -> Result<(), ProviderError> {
        let noted = state.holders.add(holder, key);
        noted.map_err(|error| host("note a holder in", &self.directory, error))
    }

    pub(super) fn path(&self, key: &LayerKey) -> PathBuf {
        self.directory.join(key.as_str())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is one insert or remove, made after the disk has it, so a panic cannot leave
        // the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the making of a layer, after success or failure.
    pub(super) fn settle(&self, key: &LayerKey) {
        self.lock().making.remove(key);
        self.made.notify_all();
    }

    /// The keys of all layers in the store.
    pub(super) fn keys(&self) -> io::Result<Vec<LayerKey>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut keys = Vec::new();
        for entry in entries {
            keys.extend(entry?.file_name().to_str().and_then(LayerKey::parse));
        }
        Ok(keys)
    }
}

pub(super) fn host(doing: &'static str, path: &Path, source: io::Error) -> ProviderError {
    BoxError::Host { doing, path: path.to_owned(), source }.into()
}
