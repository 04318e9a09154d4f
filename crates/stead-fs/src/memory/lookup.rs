//! Finding nodes. Nothing here changes the tree.

use std::sync::Arc;

use super::MemoryFs;
use super::tree::{Directory, File, Node};
use crate::error::FsError;
use crate::path::WorkspacePath;
use crate::resolve::{LastLink, Step, resolve};

impl MemoryFs {
    /// The node at a path without links in it; the root is a directory.
    fn find(&self, path: &WorkspacePath) -> Option<Node> {
        let mut node = Node::Directory(Arc::clone(&self.root));
        for segment in path.segments() {
            let Node::Directory(directory) = &node else { return None };
            node = directory.entries.get(segment)?.clone();
        }
        Some(node)
    }

    fn step(&self, path: &WorkspacePath) -> Step {
        match self.find(path) {
            None => Step::Missing,
            Some(Node::Directory(_)) => Step::Directory,
            Some(Node::File(_)) => Step::Other,
            Some(Node::Link(link)) => Step::Link(link.target.to_vec()),
        }
    }

    pub(super) fn resolved(&self, path: &WorkspacePath, last: LastLink) -> Result<WorkspacePath, FsError> {
        // Most paths hold no link: one descent finds out.
        let mut directory = &self.root;
        let mut segments = path.segments().peekable();
        while let Some(segment) = segments.next() {
            match directory.entries.get(segment) {
                Some(Node::Directory(next)) => directory = next,
                Some(Node::File(_)) if segments.peek().is_none() => return Ok(path.clone()),
                None => return Ok(path.clone()),
                Some(Node::File(_) | Node::Link(_)) => return resolve(path, last, |path| Ok(self.step(path))),
            }
        }
        Ok(path.clone())
    }

    pub(super) fn node(&self, path: &WorkspacePath, last: LastLink) -> Result<(WorkspacePath, Node), FsError> {
        let resolved = self.resolved(path, last)?;
        let node = self.find(&resolved).ok_or_else(|| FsError::NotFound { path: path.clone() })?;
        Ok((resolved, node))
    }

    pub(super) fn file(&self, path: &WorkspacePath) -> Result<Arc<File>, FsError> {
        match self.node(path, LastLink::Followed)?.1 {
            Node::File(file) => Ok(file),
            Node::Directory(_) => Err(FsError::IsDirectory { path: path.clone() }),
            Node::Link(_) => Err(FsError::LinkLoop { path: path.clone() }),
        }
    }

    pub(super) fn directory(&self, path: &WorkspacePath) -> Result<(WorkspacePath, Arc<Directory>), FsError> {
        match self.node(path, LastLink::Followed)? {
            (resolved, Node::Directory(directory)) => Ok((resolved, directory)),
            _ => Err(FsError::NotDirectory { path: path.clone() }),
        }
    }

    /// That a new entry could be put at this link-free path: every ancestor is a directory or missing.
    pub(super) fn check_ancestors(&self, path: &WorkspacePath) -> Result<(), FsError> {
        if path.depth() > Self::MAX_DEPTH {
            return Err(FsError::TooDeep { path: path.clone(), limit: Self::MAX_DEPTH });
        }
        let mut directory = &self.root;
        let mut at = WorkspacePath::root();
        let Some(parent) = path.parent() else { return Err(FsError::Root) };
        for segment in parent.segments() {
            at = at.joined(segment);
            match directory.entries.get(segment) {
                Some(Node::Directory(next)) => directory = next,
                Some(Node::File(_) | Node::Link(_)) => return Err(FsError::NotDirectory { path: at }),
                None => return Ok(()),
            }
        }
        Ok(())
    }
}
