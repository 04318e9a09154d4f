//! The label of a layer, beside its tree: what it takes and what its writer reported.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::report::LayerReport;

pub(super) const TREE: &str = "tree";
/// Its presence says that the layer is complete, its time when the layer was last used.
pub(super) const LABEL: &str = "layer.json";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Label {
    /// On the disk, when it was made.
    pub(super) bytes: u64,
    pub(super) entries: u64,
    #[serde(rename = "note")]
    pub(super) report: LayerReport,
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

/// Bytes on the disk and the number of entries; a file with several names counts once. The tree is the
/// server's own, and nothing else writes there.
pub(super) fn measure(tree: &Path) -> io::Result<(u64, u64)> {
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
