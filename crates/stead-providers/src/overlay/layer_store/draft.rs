//! A tree that is becoming a layer: written aside, synced to disk, and only then named.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::flush::{Flusher, flush};
use super::key::LayerKey;
use super::label::{LABEL, Label, TREE, measure};
use super::report::LayerReport;
use super::store::{Layer, LayerStore, host};
use crate::contract::error::ProviderError;
use crate::guest::ScratchDirectory;

/// The layer of a key: complete, or for the caller to write.
#[derive(Debug)]
pub enum LayerSlot {
    Ready(Layer),
    Empty(LayerDraft),
}

/// An empty directory that becomes a layer. Dropping it removes the directory, and the next caller
/// of [`LayerStore::prepare`] gets a draft.
#[derive(Debug)]
pub struct LayerDraft(Draft);

#[derive(Debug)]
enum Draft {
    Stored(StoredDraft),
    /// For a workspace that copies its trees: the directory is removed with the layer.
    Scratch {
        key: LayerKey,
        directory: ScratchDirectory,
    },
}

impl LayerDraft {
    pub(crate) fn scratch(key: LayerKey, directory: ScratchDirectory) -> Self {
        Self(Draft::Scratch { key, directory })
    }

    pub(super) fn stored(making: Making, holder: &str) -> Result<Self, ProviderError> {
        Ok(Self(Draft::Stored(StoredDraft::begin(making, holder)?)))
    }

    /// The directory to write: plain files, directories and links, owned by this process.
    pub fn tree(&self) -> &Path {
        match &self.0 {
            Draft::Stored(draft) => &draft.tree,
            Draft::Scratch { directory, .. } => directory.path(),
        }
    }

    /// Completes the layer. Returns when all of it is on disk. Blocks.
    pub fn complete(self, report: LayerReport) -> Result<Layer, ProviderError> {
        match self.0 {
            Draft::Stored(draft) => draft.complete(report),
            Draft::Scratch { key, directory } => Ok(Layer::of_scratch(key, directory, report)),
        }
    }
}

/// The right to make the layer of one key. Dropping it wakes the callers that wait for the layer.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) store: Arc<LayerStore>,
    pub(super) key: LayerKey,
}

impl Drop for Making {
    fn drop(&mut self) {
        self.store.settle(&self.key);
    }
}

/// A directory below `.making`. If its removal fails, the next server start removes it.
#[derive(Debug)]
struct Aside(PathBuf);

impl Drop for Aside {
    fn drop(&mut self) {
        // A completed draft has been renamed, and then this is a no-op.
        let _ = stead_box::remove(&self.0);
    }
}

/// Fields are dropped in this order: nothing is flushed while the directory is removed, and it is
/// removed before another caller may begin.
#[derive(Debug)]
struct StoredDraft {
    flusher: Flusher,
    aside: Aside,
    tree: PathBuf,
    holder: String,
    making: Making,
}

impl StoredDraft {
    fn begin(making: Making, holder: &str) -> Result<Self, ProviderError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        let aside = Aside(making.store.directory.join(".making").join(number));
        let tree = aside.0.join(TREE);
        let private = DirBuilder::new().recursive(true).mode(0o700).create(&aside.0);
        private.map_err(|error| host("make", &aside.0, error))?;
        DirBuilder::new().mode(0o755).create(&tree).map_err(|error| host("make", &tree, error))?;
        let flusher = Flusher::start(aside.0.clone());
        Ok(Self { flusher, aside, tree, holder: holder.to_owned(), making })
    }

    fn complete(self, report: LayerReport) -> Result<Layer, ProviderError> {
        let Self { flusher, aside, tree, holder, making } = self;
        let (store, key, path) = (&making.store, &making.key, &aside.0);
        let unsynced = |error| host("sync", path, error);
        flusher.stop().map_err(unsynced)?;
        // Sync the tree before the label that declares it complete.
        let (bytes, entries) = std::thread::scope(|scope| {
            let flushing = scope.spawn(|| flush(path));
            let measured = measure(&tree);
            flushing.join().unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into())).and(measured)
        })
        .map_err(unsynced)?;
        let label = serde_json::to_vec(&Label { bytes, entries, report }).map_err(io::Error::other);
        label.and_then(|label| write_synced(path, &label)).map_err(|error| host("label", path, error))?;
        let named = store.path(key);
        if named.exists() {
            // An incomplete layer from a version that did not write the label last.
            stead_box::remove(&named)?;
        }
        fs::rename(path, &named).map_err(|error| host("name", &named, error))?;
        let parent = File::open(&store.directory).and_then(|parent| parent.sync_all());
        parent.map_err(|error| host("sync", &store.directory, error))?;
        {
            let mut state = store.lock();
            state.bytes.insert(key.clone(), bytes);
            // The key still counts as being made, so the collector cannot find it without a holder.
            store.note_holder(&mut state, &holder, key)?;
        }
        store.layer(key.clone())
    }
}

fn write_synced(directory: &Path, label: &[u8]) -> io::Result<()> {
    let mut file = File::create(directory.join(LABEL))?;
    file.write_all(label)?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
}
