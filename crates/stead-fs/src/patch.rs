//! The changes between two trees as a patch that `git apply` accepts, and code that applies it
//! without git ([`Applying`]).
//!
//! Invariant: `git apply` accepts the patch, and applying it to the first tree gives the second,
//! except for reported changes: very large files ([`Patch::unshown`]), empty directories, special
//! files and nested repositories ([`Patch::omitted`]), and ignored files ([`Patch::ignored`]). The
//! `.git` of the workspace itself is neither included nor reported: git accepts it from no patch,
//! and even reading a repository changes some of its files.

mod apply;
mod apply_hunks;
mod base85;
mod binary;
mod change;
mod hunks;
mod ignored;
mod inventory;
mod links;
mod names;
mod quote;
mod renames;
mod sections;
mod stat;
mod touched;
mod tracked;
mod writer;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Read as _;

use serde::{Deserialize, Serialize};

use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Content, Filesystem};
use crate::mirror::has_same_content;
use crate::path::WorkspacePath;
pub use apply::{ApplyError, Applying, Conflict};
pub use change::{ChangeKind, Contents, FileChange, LineCounts, Omitted, OmittedReason, Patch};
pub(crate) use hunks::unified;
use ignored::IgnoreFilter;
use inventory::{Inventory, Leaf};
pub(crate) use links::climbs_from_a_name;
use renames::{Candidate, Rename};
use writer::{Side, Writer};

/// Limits on paths. No tool can apply a patch to a longer path, and the cost of comparing grows
/// with the square of the depth.
const MAX_PATH: usize = 4_096;
const MAX_DEPTH: usize = 1_000;
/// Larger files are listed in [`Patch::unshown`].
const MAX_BYTES: u64 = 8 << 20;
/// Larger files are not hashed. Hashing a hole takes as long as hashing data, and a hole can have
/// any size.
const MAX_HASHED: u64 = 64 << 30;

/// Options of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    #[serde(default)]
    pub ignored: IgnoredFiles,
    /// Maximum size of the text, as JSON. Changes beyond it are in [`Patch::unshown`].
    #[serde(default = "most_bytes")]
    pub most_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { ignored: IgnoredFiles::default(), most_bytes: most_bytes() }
    }
}

fn most_bytes() -> u64 {
    32 << 20
}

/// Treatment of untracked files that `.gitignore` rules match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IgnoredFiles {
    Included,
    /// Left out if the root of one of the trees has a `.git`.
    #[default]
    LeftOutOfRepositories,
    LeftOut,
}

/// Compares two trees.
pub fn between(before: &dyn Filesystem, after: &dyn Filesystem, options: &Options) -> Result<Patch, FsError> {
    let everything = [WorkspacePath::root()];
    let comparison = Comparison { before, after, options };
    comparison.compare(&everything, BTreeSet::new())
}

/// Compares two trees, of which the second is the first with the upper directories of an overlay
/// above it. Only paths in an upper directory can differ, so the cost depends on the change and not
/// on the tree.
pub fn between_written(
    before: &dyn Filesystem,
    after: &dyn Filesystem,
    uppers: &[&dyn Filesystem],
    options: &Options,
) -> Result<Patch, FsError> {
    let mut touched = touched::touched(before, after, uppers)?;
    // Drop paths that are inside others.
    touched.scopes.sort_unstable();
    touched.scopes.dedup_by(|later, earlier| later.is_within(earlier));
    touched.emptied.retain(|path| !inventory::is_own_repository(path));
    let comparison = Comparison { before, after, options };
    comparison.compare(&touched.scopes, touched.emptied)
}

/// A path with its entries in both trees.
struct Change {
    path: WorkspacePath,
    old: Option<Leaf>,
    new: Option<Leaf>,
    content: Compared,
}

/// The result of comparing a path's content in both trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    Same,
    Different,
}

struct Comparison<'a> {
    before: &'a dyn Filesystem,
    after: &'a dyn Filesystem,
    options: &'a Options,
}

impl Comparison<'_> {
    fn compare(&self, scopes: &[WorkspacePath], emptied: BTreeSet<WorkspacePath>) -> Result<Patch, FsError> {
        let (old, new) = (Inventory::of(self.before, scopes)?, Inventory::of(self.after, scopes)?);
        let mut changes = self.changes(&old, &new)?;
        let mut filter = IgnoreFilter::new(self.before, self.after, self.options.ignored);
        let found = changes.len();
        changes.retain(|change| !filter.leaves_out(&change.path, change.old.as_ref()));
        let ignored = (found - changes.len()) as u64;
        let mut omitted = omitted(&old, &new, emptied);
        omitted.retain(|omitted| !filter.leaves_out_directory(&omitted.path));
        changes.retain(|change| {
            let is_link = [&change.old, &change.new].into_iter().flatten().any(Leaf::is_link);
            let refused = names::git_refuses(&change.path, if is_link { Kind::Symlink } else { Kind::File });
            if refused {
                omitted.push(Omitted { path: change.path.clone(), reason: OmittedReason::RefusedName });
            }
            !refused
        });
        for omitted in &mut omitted {
            if let Some(path) = names::repository(&omitted.path) {
                *omitted = Omitted { path, reason: OmittedReason::Repository };
            }
        }
        omitted.sort_unstable();
        omitted.dedup();
        let mut renames = self.renames(&changes)?;
        let moved: HashSet<WorkspacePath> = renames.values().map(|rename| rename.from.clone()).collect();
        let old_leaf = |path: &WorkspacePath| old.leaves.get(path).copied();
        let mut writer = Writer::new(self.options.most_bytes);
        for change in &changes {
            if moved.contains(&change.path) {
                continue;
            }
            match renames.remove(&change.path) {
                Some(rename) => self.write_rename(&mut writer, change, &rename, old_leaf(&rename.from))?,
                None => self.write(&mut writer, change)?,
            }
        }
        let mut patch = writer.finish();
        patch.changed = changes.into_iter().map(|change| change.path).collect();
        (patch.omitted, patch.ignored) = (omitted, ignored);
        Ok(patch)
    }

    /// Returns the paths that differ, sorted.
    fn changes(&self, old: &Inventory, new: &Inventory) -> Result<Vec<Change>, FsError> {
        let paths: BTreeSet<&WorkspacePath> = old.leaves.keys().chain(new.leaves.keys()).collect();
        let mut changes = Vec::new();
        for path in paths {
            let (old, new) = (old.leaves.get(path).copied(), new.leaves.get(path).copied());
            let content = match (old, new) {
                (Some(old), Some(new)) => self.compare_content(path, (old, new))?,
                _ => Compared::Different,
            };
            if content == Compared::Different || old.map(|leaf| leaf.mode) != new.map(|leaf| leaf.mode) {
                changes.push(Change { path: path.clone(), old, new, content });
            }
        }
        Ok(changes)
    }

    fn compare_content(&self, path: &WorkspacePath, leaves: (Leaf, Leaf)) -> Result<Compared, FsError> {
        let same = match leaves {
            (Leaf { digest: Some(old), .. }, Leaf { digest: Some(new), .. }) => old == new,
            (Leaf { digest: None, .. }, Leaf { digest: None, .. }) => has_same_content(self.before, self.after, path)?,
            _ => false,
        };
        Ok(if same { Compared::Same } else { Compared::Different })
    }

    fn renames(&self, changes: &[Change]) -> Result<HashMap<WorkspacePath, Rename>, FsError> {
        let candidate =
            |path: &WorkspacePath, leaf: &Leaf| Candidate { path: path.clone(), size: leaf.size, digest: leaf.digest };
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for change in changes {
            match (&change.old, &change.new) {
                (Some(leaf), None) if !leaf.is_link() => removed.push(candidate(&change.path, leaf)),
                (None, Some(leaf)) if !leaf.is_link() => added.push(candidate(&change.path, leaf)),
                _ => {}
            }
        }
        let load = |fs: &dyn Filesystem, path: &WorkspacePath| {
            content(fs, path, MAX_BYTES).map_err(|error| vanished(error, path))
        };
        renames::find(removed, added, &|path| load(self.before, path), &|path| load(self.after, path))
    }

    fn write(&self, writer: &mut Writer, change: &Change) -> Result<(), FsError> {
        let path = &change.path;
        // The content of a removed file is not part of a binary patch, so it may be larger.
        let most = if change.new.is_some() { MAX_BYTES } else { binary::MAX_CONTENT as u64 };
        let old = change.old.map(|leaf| Side::load(self.before, path, leaf, most)).transpose()?;
        let new = change.new.map(|leaf| Side::load(self.after, path, leaf, MAX_BYTES)).transpose()?;
        match (&old, &new) {
            // A file became a link, or a link a file: write a removal and an addition.
            (Some(gone), Some(come)) if gone.leaf.is_link() != come.leaf.is_link() => writer.replace(path, gone, come),
            (old, new) => writer.section(path, old.as_ref(), new.as_ref(), change.content),
        }
    }

    fn write_rename(
        &self,
        writer: &mut Writer,
        change: &Change,
        rename: &Rename,
        old: Option<Leaf>,
    ) -> Result<(), FsError> {
        let (Some(old), Some(new)) = (old, change.new) else { return self.write(writer, change) };
        if old.digest.is_some() && old.digest == new.digest {
            return writer.renamed((&rename.from, &Side::unread(old)), (&change.path, &Side::unread(new)), 100);
        }
        let old = Side::load(self.before, &rename.from, old, MAX_BYTES)?;
        let new = Side::load(self.after, &change.path, new, MAX_BYTES)?;
        writer.renamed((&rename.from, &old), (&change.path, &new), rename.similarity)
    }
}

/// The changes that no patch can carry. `emptied` are directories of both trees that lost their
/// last entry.
fn omitted(old: &Inventory, new: &Inventory, emptied: BTreeSet<WorkspacePath>) -> Vec<Omitted> {
    let (old_empty, mut new_empty) = (old.empty_directories(), new.empty_directories());
    new_empty.extend(emptied);
    let listed = |path: &WorkspacePath, reason| Omitted { path: path.clone(), reason };
    let made = new_empty.difference(&old_empty).map(|path| listed(path, OmittedReason::EmptyDirectory));
    let gone = old_empty.iter().filter(|path| !new.directories.contains(*path));
    let gone = gone.map(|path| listed(path, OmittedReason::RemovedDirectory));
    let special = new.special.difference(&old.special).map(|path| listed(path, OmittedReason::SpecialFile));
    made.chain(gone).chain(special).collect()
}

/// Refuses a path that no patch can name.
fn check_depth(path: &WorkspacePath) -> Result<(), FsError> {
    let bytes = path.as_bytes();
    if bytes.len() <= MAX_PATH && bytes.iter().filter(|byte| **byte == b'/').count() < MAX_DEPTH {
        return Ok(());
    }
    // Show only the beginning of the path, because it is very long.
    let shown = WorkspacePath::from_segments(path.segments().take(8)).unwrap_or_else(|_| WorkspacePath::root());
    Err(FsError::TooDeep { path: shown, limit: MAX_DEPTH })
}

/// Reads a file; `None` if it is larger than `most` bytes.
fn content(fs: &dyn Filesystem, path: &WorkspacePath, most: u64) -> Result<Option<Vec<u8>>, FsError> {
    match fs.open_walked(path)? {
        Content::Bytes(bytes) if bytes.len() as u64 <= most => Ok(Some(bytes.to_vec())),
        Content::Stream { mut reader, size } if size <= most => {
            let mut bytes = Vec::new();
            let read = reader.by_ref().take(most).read_to_end(&mut bytes);
            read.map_err(|source| FsError::Io { action: "read", path: path.clone(), source })?;
            Ok(Some(bytes))
        }
        Content::Bytes(_) | Content::Stream { .. } => Ok(None),
    }
}

/// A file that was there a moment ago was changed during the comparison.
fn vanished(error: FsError, path: &WorkspacePath) -> FsError {
    if error.is_vanished() { FsError::Changed { path: path.clone() } } else { error }
}
