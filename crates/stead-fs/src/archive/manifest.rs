//! Records the entries of an archive, to refuse contradictions.

use std::collections::HashMap;

use super::{ArchiveEntry, ArchiveError, Body, LinkTargets};
use crate::error::FsError;
use crate::filesystem::resolve::{LastLink, Step, resolve};
use crate::patch::climbs_from_a_name;
use crate::path::WorkspacePath;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    File,
    Directory,
    /// Not an entry of its own, but the parent of one.
    Implied,
    Link,
}

struct Known {
    seen: Seen,
    size: u64,
    target: Vec<u8>,
}

pub(super) struct Manifest {
    known: HashMap<WorkspacePath, Known>,
    targets: LinkTargets,
}

impl Manifest {
    pub(super) fn new(targets: LinkTargets) -> Self {
        Self { known: HashMap::new(), targets }
    }

    /// Records an entry, and refuses one that repeats or contradicts an earlier one.
    pub(super) fn add(&mut self, entry: &ArchiveEntry<'_>, size: u64) -> Result<(), ArchiveError> {
        self.imply_parents(&entry.path)?;
        let (seen, target) = match &entry.body {
            Body::Directory => (Seen::Directory, Vec::new()),
            Body::File { .. } => (Seen::File, Vec::new()),
            Body::HardLink { target } if self.size_of(target).is_some() => (Seen::File, Vec::new()),
            Body::HardLink { target } => return Err(ArchiveError::link(&entry.path, target.as_bytes())),
            Body::Special => return Err(ArchiveError::Special { name: entry.path.to_string() }),
            Body::Symlink { target } => {
                check_target(&entry.path, target)?;
                if self.targets == LinkTargets::AlwaysInside && climbs_from_a_name(target) {
                    return Err(ArchiveError::link(&entry.path, target));
                }
                (Seen::Link, target.clone())
            }
        };
        match self.known.get(&entry.path).map(|known| known.seen) {
            None => {}
            Some(Seen::Implied) if seen == Seen::Directory => {}
            Some(Seen::Implied) => return Err(ArchiveError::Conflict { path: entry.path.clone() }),
            Some(_) => return Err(ArchiveError::Duplicate { path: entry.path.clone() }),
        }
        self.known.insert(entry.path.clone(), Known { seen, size, target });
        Ok(())
    }

    fn imply_parents(&mut self, path: &WorkspacePath) -> Result<(), ArchiveError> {
        let mut at = path.parent();
        while let Some(parent) = at.filter(|parent| !parent.is_root()) {
            match self.known.get(&parent).map(|known| known.seen) {
                Some(Seen::Directory | Seen::Implied) => return Ok(()),
                // An entry below a file or through a link: a classic attack.
                Some(Seen::File | Seen::Link) => return Err(ArchiveError::Conflict { path: path.clone() }),
                None => {
                    at = parent.parent();
                    self.known.insert(parent, Known { seen: Seen::Implied, size: 0, target: Vec::new() });
                }
            }
        }
        Ok(())
    }

    /// The size of an earlier file.
    pub(super) fn size_of(&self, path: &WorkspacePath) -> Option<u64> {
        self.known.get(path).filter(|known| known.seen == Seen::File).map(|known| known.size)
    }

    pub(super) fn count(&self, seen: Seen) -> usize {
        self.known.values().filter(|known| known.seen == seen).count()
    }

    /// Checks that every link stays inside when it is followed through all other links.
    pub(super) fn check_links(&self) -> Result<(), ArchiveError> {
        for (path, known) in self.known.iter().filter(|(_, known)| known.seen == Seen::Link) {
            let followed = resolve(path, LastLink::Followed, |path| Ok(self.step(path)));
            // A dangling link is allowed.
            if let Err(FsError::Escapes { .. } | FsError::LinkLoop { .. }) = followed {
                return Err(ArchiveError::link(path, &known.target));
            }
        }
        Ok(())
    }

    fn step(&self, path: &WorkspacePath) -> Step {
        match self.known.get(path) {
            None => Step::Missing,
            Some(known) => match known.seen {
                Seen::File => Step::Other,
                Seen::Directory | Seen::Implied => Step::Directory,
                Seen::Link => Step::Link(known.target.clone()),
            },
        }
    }
}

/// Checks that a target does not climb above the root by its text alone, whatever other entries
/// exist.
fn check_target(path: &WorkspacePath, target: &[u8]) -> Result<(), ArchiveError> {
    let refused = || ArchiveError::link(path, target);
    if target.is_empty() || target.len() > 4_000 || target.first() == Some(&b'/') || target.contains(&0) {
        return Err(refused());
    }
    let mut depth = path.depth() - 1;
    for segment in target.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => depth = depth.checked_sub(1).ok_or_else(refused)?,
            _ => depth += 1,
        }
    }
    Ok(())
}
