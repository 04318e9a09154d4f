//! The only place where the tree changes. Each change is checked completely before the first node
//! is touched.

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};

use super::MemoryFs;
use super::tree::{Directory, File, Link, Node, Seen};
use crate::error::FsError;
use crate::filesystem::change::Change;
use crate::filesystem::entry::Permission;
use crate::filesystem::resolve::LastLink;
use crate::path::{self, WorkspacePath};

/// Maximum length of a link's target in Linux.
const MAX_TARGET: usize = 4095;

impl MemoryFs {
    /// Applies the change, or returns an error and leaves the tree unchanged.
    ///
    /// The same changes in the same order with the same times turn equal trees into equal trees,
    /// with the same hash and versions.
    pub fn apply(&mut self, change: &Change, at_millis: i64) -> Result<(), FsError> {
        match change {
            Change::Wrote { path, content } => self.put(path, at_millis, |_| content.clone()),
            Change::Appended { path, content } => self.put(path, at_millis, |old| joined(old, content)),
            Change::MadeDirectory { path } => self.make_directory(path, at_millis),
            Change::Linked { path, target } => self.link(path, target, at_millis),
            Change::SetPermission { path, permission } => self.permit(path, *permission, at_millis),
            Change::Removed { path } => self.remove(path),
            Change::Renamed { from, to } => self.move_entry(from, to, at_millis),
            Change::Copied { from, to } => self.copy_entry(from, to, at_millis),
        }
    }

    fn put(
        &mut self,
        path: &WorkspacePath,
        at: i64,
        make: impl FnOnce(Option<&Bytes>) -> Bytes,
    ) -> Result<(), FsError> {
        let path = self.resolved(path, LastLink::Followed)?;
        self.check_ancestors(&path)?;
        let old = match self.find(&path) {
            Some(Seen::File(file)) => Some(file),
            Some(Seen::Directory(_)) => return Err(FsError::IsDirectory { path }),
            Some(Seen::Link(_)) => return Err(FsError::LinkLoop { path }),
            None => None,
        };
        let file = File {
            content: make(old.map(|file| &file.content)),
            permission: old.map_or(Permission::Plain, |file| file.permission),
            version: old.map_or(1, |file| file.version + 1),
            created_at: old.map_or(at, |file| file.created_at),
            updated_at: at,
            hash: OnceLock::new(),
        };
        self.insert(&path, Node::File(Arc::new(file)), at)
    }

    fn make_directory(&mut self, path: &WorkspacePath, at: i64) -> Result<(), FsError> {
        let path = self.resolved(path, LastLink::Followed)?;
        match self.find(&path) {
            Some(Seen::Directory(_)) => Ok(()),
            Some(_) => Err(FsError::Exists { path }),
            None => {
                self.check_ancestors(&path)?;
                self.insert(&path, Node::Directory(Arc::new(Directory::made(at))), at)
            }
        }
    }

    fn link(&mut self, path: &WorkspacePath, target: &Bytes, at: i64) -> Result<(), FsError> {
        let path = self.resolved(path, LastLink::Kept)?;
        if target.is_empty() || target.len() > MAX_TARGET || target.contains(&0) {
            return Err(FsError::Path(crate::PathError::TooLong { limit: MAX_TARGET }));
        }
        self.check_ancestors(&path)?;
        self.check_free(&path)?;
        self.insert(&path, Node::Link(Arc::new(Link { target: target.clone(), created_at: at })), at)
    }

    fn permit(&mut self, path: &WorkspacePath, permission: Permission, at: i64) -> Result<(), FsError> {
        let resolved = self.resolved(path, LastLink::Followed)?;
        let file = self.file(&resolved)?;
        if file.permission == permission {
            return Ok(());
        }
        let changed = File { permission, version: file.version + 1, updated_at: at, ..File::clone(file) };
        self.insert(&resolved, Node::File(Arc::new(changed)), at)
    }

    fn remove(&mut self, path: &WorkspacePath) -> Result<(), FsError> {
        let (path, _) = self.node(path, LastLink::Kept)?;
        let (parent, name) = path.split_name().ok_or(FsError::Root)?;
        self.directory_mut(parent, 0)?.entries.remove(name);
        Ok(())
    }

    fn move_entry(&mut self, from: &WorkspacePath, to: &WorkspacePath, at: i64) -> Result<(), FsError> {
        let (from, to, node) = self.placed(from, to)?;
        self.remove(&from)?;
        self.insert(&to, node, at)
    }

    fn copy_entry(&mut self, from: &WorkspacePath, to: &WorkspacePath, at: i64) -> Result<(), FsError> {
        let (_, to, node) = self.placed(from, to)?;
        self.insert(&to, node.copied(at), at)
    }

    /// Finds a node and checks that it can also be put at `to`. Returns both resolved paths.
    fn placed(
        &self,
        from: &WorkspacePath,
        to: &WorkspacePath,
    ) -> Result<(WorkspacePath, WorkspacePath, Node), FsError> {
        let (from, node) = self.node(from, LastLink::Kept)?;
        let to = self.resolved(to, LastLink::Kept)?;
        if from.is_root() || to.is_root() {
            return Err(FsError::Root);
        }
        if to.is_within(&from) && matches!(node, Node::Directory(_)) {
            return Err(FsError::IntoItself { from, to });
        }
        self.check_ancestors(&to)?;
        self.check_free(&to)?;
        if to.depth() + node.extent().height > Self::MAX_DEPTH + 1 {
            return Err(FsError::TooDeep { path: to, limit: Self::MAX_DEPTH });
        }
        Ok((from, to, node))
    }

    fn check_free(&self, path: &WorkspacePath) -> Result<(), FsError> {
        match self.find(path) {
            Some(_) => Err(FsError::Exists { path: path.clone() }),
            None => Ok(()),
        }
    }

    /// Inserts a node at a checked path, and creates its parent directories.
    fn insert(&mut self, path: &WorkspacePath, node: Node, at: i64) -> Result<(), FsError> {
        let (parent, name) = path.split_name().ok_or(FsError::Root)?;
        let entries = &mut self.directory_mut(parent, at)?.entries;
        match entries.get_mut(name) {
            Some(there) => *there = node,
            None => drop(entries.insert(Arc::from(name), node)),
        }
        Ok(())
    }

    /// Returns the directory for modification: owned by this tree alone, with all cached values on
    /// its path dropped.
    fn directory_mut(&mut self, path: &[u8], at: i64) -> Result<&mut Directory, FsError> {
        let mut directory = Arc::make_mut(&mut self.root);
        directory.forget_derived();
        for segment in path::segments(path) {
            if !directory.entries.contains_key(segment) {
                directory.entries.insert(Arc::from(segment), Node::Directory(Arc::new(Directory::made(at))));
            }
            let Some(Node::Directory(next)) = directory.entries.get_mut(segment) else {
                return Err(FsError::NotDirectory { path: WorkspacePath::from_valid(path.to_vec()) });
            };
            directory = Arc::make_mut(next);
            directory.forget_derived();
        }
        Ok(directory)
    }
}

impl Directory {
    fn made(at: i64) -> Self {
        Self { created_at: at, ..Self::default() }
    }
}

fn joined(old: Option<&Bytes>, more: &Bytes) -> Bytes {
    match old {
        Some(old) if !old.is_empty() => {
            let mut whole = BytesMut::with_capacity(old.len() + more.len());
            whole.extend_from_slice(old);
            whole.extend_from_slice(more);
            whole.freeze()
        }
        _ => more.clone(),
    }
}
