//! The store itself: what there is, who holds it, and what is being made.

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

/// A complete tree, of the layer store or of a directory that goes with this value.
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
    /// Told when something that was being made is made, or is not going to be.
    made: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) holders: Holders,
    pub(super) making: HashSet<LayerKey>,
    /// What each layer takes, once it is known.
    pub(super) bytes: BTreeMap<LayerKey, u64>,
}

impl LayerStore {
    /// Opens the store, and removes what an interrupted server was making. The directory is made when it is needed.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, ProviderError> {
        let directory = directory.into();
        let holders = Holders::read(&directory.join(".holders")).map_err(|error| host("read", &directory, error))?;
        stead_box::remove(&directory.join(".making"))?;
        let state = State { holders, making: HashSet::new(), bytes: BTreeMap::new() };
        Ok(Self { directory, state: Mutex::new(state), made: Condvar::new() })
    }

    /// Returns the layer of this key, held by `holder` from now on, or a draft for the caller to write.
    /// Callers that want the same layer at the same time wait for the first one. If that one fails,
    /// the next gets a draft. Blocks.
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

    /// Notes that `holder` has a layer that somebody else holds already.
    pub fn hold(&self, key: &LayerKey, holder: &str) -> Result<Layer, ProviderError> {
        let mut state = self.lock();
        if !self.path(key).join(label::LABEL).exists() {
            return Err(ProviderError::NoLayer { key: key.clone() });
        }
        self.note_holder(&mut state, holder, key)?;
        drop(state);
        self.layer(key.clone())
    }

    /// A layer that is there, without holding it.
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

    /// The layers a holder has.
    pub fn held_by(&self, holder: &str) -> Vec<LayerKey> {
        self.lock().holders.of(holder)
    }

    /// Everybody who has this layer.
    pub fn holders_of(&self, key: &LayerKey) -> Vec<String> {
        self.lock().holders.with(key)
    }

    /// The holder has no layer any more. Releasing nothing is fine.
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
        // Each change is one insert or remove, after the disk has it: a panic elsewhere cannot leave it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The making of a layer is over, one way or the other.
    pub(super) fn settle(&self, key: &LayerKey) {
        self.lock().making.remove(key);
        self.made.notify_all();
    }

    /// Every layer that is there.
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
