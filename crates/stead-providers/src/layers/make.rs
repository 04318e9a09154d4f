//! Making a layer: aside, to the end, onto the disk, and only then under its name.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::key::{LayerKey, Note};
use super::store::{LayerStore, host};
use crate::error::ProviderError;

pub(super) const TREE: &str = "tree";
/// Beside the tree: its presence says that the layer is complete, its time when the layer was last used.
pub(super) const LABEL: &str = "layer.json";
/// A tree that is written faster than this goes to the disk once.
const FLUSHED_EVERY: Duration = Duration::from_millis(150);

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
        let note = while_flushing(aside, || write(&tree)).map_err(at("sync", aside))??;
        // The tree is on the disk before anything says that it is complete.
        let (bytes, entries) = std::thread::scope(|scope| {
            let flushing = scope.spawn(|| flush(aside));
            let measured = measure(&tree);
            flushing.join().unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into())).and(measured)
        })
        .map_err(at("sync", aside))?;
        let label = serde_json::to_vec(&Label { bytes, entries, note }).map_err(io::Error::other);
        label.and_then(|label| write_synced(aside, &label)).map_err(at("label", aside))?;
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

/// All of the tree at once: a file at a time would take a disk's turn for each of them.
fn flush(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

/// Lets the disk take what is there while more is being written, so that little is left for it in the end.
fn while_flushing<T>(directory: &Path, write: impl FnOnce() -> T) -> io::Result<T> {
    let (written, wait) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let flushing = scope.spawn(move || {
            while wait.recv_timeout(FLUSHED_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                flush(directory)?;
            }
            Ok(())
        });
        let answer = write();
        drop(written);
        flushing.join().unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into())).map(|()| answer)
    })
}

fn write_synced(directory: &Path, label: &[u8]) -> io::Result<()> {
    let mut file = File::create(directory.join(LABEL))?;
    file.write_all(label)?;
    file.sync_all()?;
    File::open(directory)?.sync_all()
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

/// Bytes on the disk and the number of entries; what has several names is one file. The tree is the server's own: nobody else writes there.
pub(crate) fn measure(tree: &Path) -> io::Result<(u64, u64)> {
    let (mut bytes, mut entries, mut linked) = (0, 0, HashSet::new());
    let mut left: Vec<PathBuf> = vec![tree.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_dir() || found.nlink() == 1 || linked.insert(found.ino()) {
                bytes += found.blocks() * 512;
            }
            entries += 1;
            if found.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok((bytes, entries))
}
