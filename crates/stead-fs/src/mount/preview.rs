//! A description of a mount for users and agents.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::plan::{Item, Plan};
use super::{AllowedRoots, HostMount};
use crate::filesystem::entry::Kind;
use crate::path::WorkspacePath;

/// Maximum number of entries in a preview.
const KEPT: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MountPreview {
    /// The path as configured, and the real path.
    pub host_path: String,
    pub resolved_host: String,
    /// The path in the workspace.
    pub mount_path: WorkspacePath,
    /// The first entries of the mount's top level, sorted, directories with a final `/`.
    pub entries: Vec<String>,
    /// Number of all entries at the top level.
    pub total_entries: usize,
    pub is_directory: bool,
    pub files: usize,
    pub bytes_copied: u64,
    /// Number of omitted links and special files.
    pub skipped: usize,
}

impl MountPreview {
    pub(super) fn of(mount: &HostMount, plan: &Plan, roots: &AllowedRoots, bytes_copied: u64) -> Self {
        let mut top = BTreeMap::new();
        for item in &plan.items {
            let Some(below) = item.target().below(&plan.mount_path) else { continue };
            let Some(name) = below.segments().next() else { continue };
            let directory = below.depth() > 1 || matches!(item, Item::Directory { .. });
            *top.entry(name.to_vec()).or_insert(false) |= directory;
        }
        let shown = |(name, directory): (&Vec<u8>, &bool)| {
            let name = WorkspacePath::root().joined(name);
            if *directory { format!("{name}/") } else { name.to_string() }
        };
        Self {
            host_path: mount.host_path.clone(),
            resolved_host: roots.host_path(&plan.source).display().to_string(),
            mount_path: plan.mount_path.clone(),
            entries: top.iter().take(KEPT).map(shown).collect(),
            total_entries: top.len(),
            is_directory: plan.kind == Kind::Directory,
            files: plan.files(),
            bytes_copied,
            skipped: plan.skipped,
        }
    }

    /// Formats the preview with at most `most` entries of the top level and the number of the
    /// others.
    pub fn render(&self, most: usize) -> String {
        let files = if self.files == 1 { "1 file".to_owned() } else { format!("{} files", self.files) };
        let mut text = format!("{} (from {}): {files}, {} bytes", self.mount_path, self.host_path, self.bytes_copied);
        let shown = &self.entries[..self.entries.len().min(most)];
        for entry in shown {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  {entry}");
        }
        let more = self.total_entries - shown.len();
        if more > 0 {
            let _ = write!(text, "\n  … {} shown, {more} more", shown.len());
        }
        text
    }
}
