//! The label of a layer, next to its tree: its size and its writer's report.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::report::LayerReport;

pub(super) const TREE: &str = "tree";
/// The file's presence marks the layer complete; its modification time is the time of last use.
pub(super) const LABEL: &str = "layer.json";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Label {
    /// Size on disk when the layer was made.
    pub(super) bytes: u64,
    pub(super) entries: u64,
    #[serde(rename = "note")]
    pub(super) report: LayerReport,
}

pub(super) fn read_label(path: &Path) -> io::Result<Label> {
    Ok(serde_json::from_slice(&fs::read(path.join(LABEL))?)?)
}

/// Marks the layer as used now. Only a hint for the collector, so failures are ignored.
pub(super) fn touch(path: &Path) {
    if let Ok(label) = File::options().append(true).open(path.join(LABEL)) {
        let _ = label.set_modified(std::time::SystemTime::now());
    }
}

/// Returns the bytes on disk and the number of entries; a file with several hard links counts once.
/// Only the server writes to the tree.
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
