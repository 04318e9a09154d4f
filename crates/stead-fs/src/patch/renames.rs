//! Finds removed files whose content appears at a new path.
//!
//! The work is limited. Beyond the limit a rename is written as a removal and an addition, which
//! gives the same tree.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use stead_core::ContentHash;

use crate::error::FsError;
use crate::path::WorkspacePath;

/// Maximum number of added and of removed files that are compared by content.
const MOST_CANDIDATES: usize = 100;
/// Maximum size of a file that is compared by content.
const MOST_BYTES: u64 = 1 << 20;
/// Maximum number of lines that are held at once, 16 bytes each.
const MOST_LINES: usize = 1_000_000;
/// Maximum number of line comparisons.
const MOST_WORK: usize = 20_000_000;
/// Lowest similarity of a rename in percent, as in git.
const LEAST_SIMILARITY: u64 = 50;
/// Longer lines are split, so that files without line ends can be similar.
const MOST_LINE: usize = 64;

/// A regular file that exists on one side only.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) path: WorkspacePath,
    pub(super) size: u64,
    pub(super) digest: Option<ContentHash>,
}

/// A file that moved from the removed to the added path, with a similarity in percent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rename {
    pub(super) from: WorkspacePath,
    pub(super) similarity: u64,
}

type Load<'a> = dyn Fn(&WorkspacePath) -> Result<Option<Vec<u8>>, FsError> + 'a;

/// Returns the renames by their new path. `load_old` and `load_new` read a file.
pub(super) fn find(
    mut removed: Vec<Candidate>,
    mut added: Vec<Candidate>,
    load_old: &Load<'_>,
    load_new: &Load<'_>,
) -> Result<HashMap<WorkspacePath, Rename>, FsError> {
    // Empty files are all equal, so a rename of one says nothing.
    removed.retain(|file| file.size > 0);
    added.retain(|file| file.size > 0);
    let mut renames = exact(&mut removed, &mut added);
    removed.retain(|file| file.size <= MOST_BYTES);
    added.retain(|file| file.size <= MOST_BYTES);
    if removed.len() <= MOST_CANDIDATES && added.len() <= MOST_CANDIDATES {
        similar(&removed, &added, load_old, load_new, &mut renames)?;
    }
    Ok(renames)
}

/// Pairs files with equal content and takes them out of the lists. Prefers an equal name.
fn exact(removed: &mut Vec<Candidate>, added: &mut Vec<Candidate>) -> HashMap<WorkspacePath, Rename> {
    let mut by_content: HashMap<ContentHash, Vec<WorkspacePath>> = HashMap::new();
    for file in removed.iter().rev() {
        if let Some(digest) = file.digest {
            by_content.entry(digest).or_default().push(file.path.clone());
        }
    }
    let mut renames = HashMap::new();
    for file in &*added {
        let Some(sources) = file.digest.and_then(|digest| by_content.get_mut(&digest)) else { continue };
        // A long list of equal files is not searched for a name.
        let named = sources.iter().rev().take(MOST_CANDIDATES).position(|from| from.name() == file.path.name());
        let from = match named {
            Some(at) => Some(sources.remove(sources.len() - 1 - at)),
            None => sources.pop(),
        };
        if let Some(from) = from {
            renames.insert(file.path.clone(), Rename { from, similarity: 100 });
        }
    }
    let taken: std::collections::HashSet<&WorkspacePath> = renames.values().map(|rename| &rename.from).collect();
    removed.retain(|file| !taken.contains(&file.path));
    added.retain(|file| !renames.contains_key(&file.path));
    renames
}

/// Adds the most similar pairs first.
fn similar(
    removed: &[Candidate],
    added: &[Candidate],
    load_old: &Load<'_>,
    load_new: &Load<'_>,
    renames: &mut HashMap<WorkspacePath, Rename>,
) -> Result<(), FsError> {
    if removed.is_empty() || added.is_empty() {
        return Ok(());
    }
    let mut left = MOST_LINES;
    let Some(old) = read_all(removed, load_old, &mut left)? else { return Ok(()) };
    let Some(new) = read_all(added, load_new, &mut left)? else { return Ok(()) };
    let mut pairs = Vec::new();
    let mut work = 0_usize;
    for (to, new_lines) in new.iter().enumerate() {
        for (from, old_lines) in old.iter().enumerate() {
            work = work.saturating_add(new_lines.lines.len() + old_lines.lines.len());
            if work > MOST_WORK {
                break;
            }
            let score = old_lines.similarity(new_lines);
            if score >= LEAST_SIMILARITY {
                let renamed = removed[from].path.name() != added[to].path.name();
                // Content that is equal up to the order of its lines is still a change.
                pairs.push((100 - score.min(99), renamed, to, from));
            }
        }
    }
    pairs.sort_unstable();
    let (mut used_old, mut used_new) = (vec![false; old.len()], vec![false; new.len()]);
    for (distance, _, to, from) in pairs {
        if used_old[from] || used_new[to] {
            continue;
        }
        (used_old[from], used_new[to]) = (true, true);
        let rename = Rename { from: removed[from].path.clone(), similarity: 100 - distance };
        renames.insert(added[to].path.clone(), rename);
    }
    Ok(())
}

/// Reads the lines of all files; `None` if they have more than `left`.
fn read_all(files: &[Candidate], load: &Load<'_>, left: &mut usize) -> Result<Option<Vec<Lines>>, FsError> {
    let mut all = Vec::with_capacity(files.len());
    for file in files {
        let lines = Lines::of(&load(&file.path)?.unwrap_or_default());
        match left.checked_sub(lines.lines.len()) {
            Some(still) => *left = still,
            None => return Ok(None),
        }
        all.push(lines);
    }
    Ok(Some(all))
}

/// The lines of a file as sorted hashes, with the number of bytes of each.
struct Lines {
    lines: Vec<(u64, u64)>,
    size: u64,
}

impl Lines {
    fn of(content: &[u8]) -> Self {
        let pieces = content.split_inclusive(|byte| *byte == b'\n').flat_map(|line| line.chunks(MOST_LINE));
        let mut lines: Vec<(u64, u64)> = pieces
            .map(|piece| {
                let mut hash = DefaultHasher::new();
                piece.hash(&mut hash);
                (hash.finish(), piece.len() as u64)
            })
            .collect();
        lines.sort_unstable();
        Self { lines, size: content.len() as u64 }
    }

    /// The bytes of common lines in percent of the larger file.
    fn similarity(&self, other: &Self) -> u64 {
        let (mut left, mut right) = (self.lines.iter().peekable(), other.lines.iter().peekable());
        let mut shared = 0;
        while let (Some(one), Some(two)) = (left.peek(), right.peek()) {
            match one.cmp(two) {
                std::cmp::Ordering::Less => drop(left.next()),
                std::cmp::Ordering::Greater => drop(right.next()),
                std::cmp::Ordering::Equal => {
                    shared += one.1;
                    left.next();
                    right.next();
                }
            }
        }
        shared * 100 / self.size.max(other.size).max(1)
    }
}
