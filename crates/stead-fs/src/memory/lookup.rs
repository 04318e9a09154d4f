//! Finds nodes without changing or copying the tree.

use std::sync::Arc;

use super::MemoryFs;
use super::tree::{Directory, File, Node, Seen};
use crate::error::FsError;
use crate::filesystem::resolve::{LastLink, Step, resolve};
use crate::path::{self, WorkspacePath};

/// The result of descending along a path's own names.
enum Descent<'a> {
    /// The end of the path.
    At(Seen<'a>),
    Missing,
    /// A parent is not a directory. [`resolve`] handles links.
    Stopped,
}

impl MemoryFs {
    fn descend(&self, path: &[u8]) -> Descent<'_> {
        let mut directory = &self.root;
        let mut segments = path::segments(path).peekable();
        while let Some(segment) = segments.next() {
            match directory.entries.get(segment) {
                Some(Node::Directory(next)) => directory = next,
                Some(node) if segments.peek().is_none() => return Descent::At(node.seen()),
                Some(_) => return Descent::Stopped,
                None => return Descent::Missing,
            }
        }
        Descent::At(Seen::Directory(directory))
    }

    /// Finds the node at a path without links.
    pub(super) fn find(&self, path: &WorkspacePath) -> Option<Seen<'_>> {
        match self.descend(path.as_bytes()) {
            Descent::At(seen) => Some(seen),
            Descent::Missing | Descent::Stopped => None,
        }
    }

    fn step(&self, path: &WorkspacePath) -> Step {
        match self.find(path) {
            None => Step::Missing,
            Some(Seen::Directory(_)) => Step::Directory,
            Some(Seen::File(_)) => Step::Other,
            Some(Seen::Link(link)) => Step::Link(link.target.to_vec()),
        }
    }

    pub(super) fn resolved(&self, path: &WorkspacePath, last: LastLink) -> Result<WorkspacePath, FsError> {
        // Most paths have no link, and one descent detects that.
        match self.descend(path.as_bytes()) {
            Descent::At(Seen::Link(_)) | Descent::Stopped => resolve(path, last, |path| Ok(self.step(path))),
            Descent::At(_) | Descent::Missing => Ok(path.clone()),
        }
    }

    pub(super) fn look(&self, path: &WorkspacePath, last: LastLink) -> Result<Seen<'_>, FsError> {
        let found = match self.descend(path.as_bytes()) {
            Descent::At(Seen::Link(_)) | Descent::Stopped => {
                self.find(&resolve(path, last, |path| Ok(self.step(path)))?)
            }
            Descent::At(seen) => Some(seen),
            Descent::Missing => None,
        };
        found.ok_or_else(|| FsError::NotFound { path: path.clone() })
    }

    /// Returns the node, with shared ownership, and its resolved path.
    pub(super) fn node(&self, path: &WorkspacePath, last: LastLink) -> Result<(WorkspacePath, Node), FsError> {
        let resolved = self.resolved(path, last)?;
        let seen = self.find(&resolved).ok_or_else(|| FsError::NotFound { path: path.clone() })?;
        Ok((resolved, seen.to_node()))
    }

    pub(super) fn file(&self, path: &WorkspacePath) -> Result<&Arc<File>, FsError> {
        match self.look(path, LastLink::Followed)? {
            Seen::File(file) => Ok(file),
            Seen::Directory(_) => Err(FsError::IsDirectory { path: path.clone() }),
            Seen::Link(_) => Err(FsError::LinkLoop { path: path.clone() }),
        }
    }

    pub(super) fn directory(&self, path: &WorkspacePath) -> Result<&Arc<Directory>, FsError> {
        match self.look(path, LastLink::Followed)? {
            Seen::Directory(directory) => Ok(directory),
            _ => Err(FsError::NotDirectory { path: path.clone() }),
        }
    }

    /// Checks that a new entry can be put at this path without links: every ancestor is a directory
    /// or missing.
    pub(super) fn check_ancestors(&self, path: &WorkspacePath) -> Result<(), FsError> {
        if path.depth() > Self::MAX_DEPTH {
            return Err(FsError::TooDeep { path: path.clone(), limit: Self::MAX_DEPTH });
        }
        let Some((parent, _)) = path.split_name() else { return Err(FsError::Root) };
        let mut directory = &self.root;
        for (number, segment) in path::segments(parent).enumerate() {
            match directory.entries.get(segment) {
                Some(Node::Directory(next)) => directory = next,
                Some(Node::File(_) | Node::Link(_)) => {
                    let path = WorkspacePath::from_segments(path::segments(parent).take(number + 1))?;
                    return Err(FsError::NotDirectory { path });
                }
                None => return Ok(()),
            }
        }
        Ok(())
    }
}
