//! Making a layer: aside, to the end, onto the disk, and only then under its name.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::key::{LayerKey, Note};
use super::store::{LayerStore, host};
use crate::error::ProviderError;

pub(super) const TREE: &str = "tree";
/// Beside the tree: its presence says that the layer is complete, its time when the layer was last used.
pub(super) const LABEL: &str = "layer.json";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Label {
    /// On the disk, when it was made.
    pub(super) bytes: u64,
    pub(super) entries: u64,
    pub(super) note: Note,
}

/// A layer on its way. When this goes, those who wait for it look again.
pub(super) struct Making<'a> {
    pub(super) store: &'a LayerStore,
    pub(super) key: &'a LayerKey,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.store.settle(self.key);
    }
}

impl Making<'_> {
    pub(super) fn run(&self, write: impl FnOnce(&Path) -> Result<Note, ProviderError>) -> Result<(), ProviderError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let making = self.store.directory.join(".making");
        let aside = making.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        let made = self.fill(&aside, write);
        if made.is_err() {
            // What cannot be removed now is removed by the next start.
            let _ = stead_box::remove(&aside);
        }
        made
    }

    fn fill(
        &self,
        aside: &Path,
        write: impl FnOnce(&Path) -> Result<Note, ProviderError>,
    ) -> Result<(), ProviderError> {
        let at = |doing, path: &Path| {
            let path = path.to_owned();
            move |error| host(doing, &path, error)
        };
        let tree = aside.join(TREE);
        let private = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        private(aside).map_err(at("make", aside))?;
        DirBuilder::new().mode(0o755).create(&tree).map_err(at("make", &tree))?;
        let note = write(&tree)?;
        let (bytes, entries) = measure(&tree).map_err(at("measure", &tree))?;
        let label = serde_json::to_vec(&Label { bytes, entries, note }).map_err(io::Error::other);
        label.and_then(|label| fs::write(aside.join(LABEL), label)).map_err(at("label", aside))?;
        // All of the tree at once: a file at a time would take a disk's turn for each of them.
        let synced = File::open(aside).and_then(|file| Ok(rustix::fs::syncfs(file)?));
        synced.map_err(at("sync", aside))?;
        let path = self.store.path(self.key);
        if path.exists() {
            // Half of a layer, of a time before labels were written last.
            stead_box::remove(&path)?;
        }
        fs::rename(aside, &path).map_err(at("name", &path))?;
        let parent = File::open(&self.store.directory).and_then(|parent| parent.sync_all());
        parent.map_err(at("sync", &self.store.directory))?;
        self.store.lock().bytes.insert(self.key.clone(), bytes);
        Ok(())
    }
}

pub(super) fn read_label(path: &Path) -> io::Result<Label> {
    Ok(serde_json::from_slice(&fs::read(path.join(LABEL))?)?)
}

/// Says that the layer is in use. Only a hint for the collector, so it may fail.
pub(super) fn touch(path: &Path) {
    if let Ok(label) = File::options().append(true).open(path.join(LABEL)) {
        let _ = label.set_modified(std::time::SystemTime::now());
    }
}

/// Bytes on the disk and the number of entries. The tree is the server's own: nobody else writes there.
pub(crate) fn measure(tree: &Path) -> io::Result<(u64, u64)> {
    let (mut bytes, mut entries) = (0, 0);
    let mut left: Vec<PathBuf> = vec![tree.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let found = entry.metadata()?;
            bytes += found.blocks() * 512;
            entries += 1;
            if found.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok((bytes, entries))
}
