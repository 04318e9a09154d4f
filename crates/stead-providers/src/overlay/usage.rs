//! The disk usage of one workspace.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use stead_core::WorkspaceId;

use super::directories::host;
use super::lineage::LayerRef;
use super::workspaces::Workspaces;
use crate::contract::error::ProviderError;
use crate::contract::provider::WorkspaceUsage;
use crate::overlay::layer_store::LayerKey;

/// Maximum depth that is counted: an agent may make a tree of any depth, and the recursion must not
/// exhaust the stack or the file descriptors.
const MOST_DEPTH: usize = 128;
const FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Workspaces {
    /// Counts its own volume and its shared layers, but not the volumes of other workspaces.
    pub(crate) fn usage(&self, id: WorkspaceId) -> Result<Option<WorkspaceUsage>, ProviderError> {
        let Some(lineage) = self.lineage(id) else { return Ok(None) };
        let volume = self.directories.volume(&id.to_string());
        let own_bytes = measure(&volume).map_err(|error| host("measure", &volume, error))?;
        let mut keys: Vec<LayerKey> = lineage
            .refs()
            .filter_map(|layer| match layer {
                LayerRef::Shared { key } => LayerKey::parse(key),
                _ => None,
            })
            .collect();
        keys.sort();
        keys.dedup();
        let shared_bytes = keys.iter().map(|key| self.layers.bytes_of(key)).sum();
        Ok(Some(WorkspaceUsage { own_bytes, shared_bytes, shared_layers: keys.len() as u64 }))
    }
}

/// Bytes on disk. The agent may be changing the tree, so every step starts at a descriptor and
/// follows no link.
pub(super) fn measure(directory: &Path) -> io::Result<u64> {
    below(&openat(CWD, directory, FLAGS, Mode::empty())?, 0)
}

fn below(directory: &OwnedFd, depth: usize) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        // Ignore files that disappear meanwhile.
        let Ok(found) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        bytes += u64::try_from(found.st_blocks).unwrap_or(0) * 512;
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory
            && depth < MOST_DEPTH
            && let Ok(inner) = openat(directory, name, FLAGS, Mode::empty())
        {
            bytes += below(&inner, depth + 1)?;
        }
    }
    Ok(bytes)
}
