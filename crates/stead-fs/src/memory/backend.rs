//! Implements the filesystem contract in memory: lookups, and changes through [`MemoryFs::apply`].

use std::ops::ControlFlow;

use bytes::Bytes;
use stead_core::ContentHash;

use super::MemoryFs;
use super::tree::{Node, Seen};
use super::writer::MemoryWriter;

use crate::error::FsError;
use crate::filesystem::change::Change;
use crate::filesystem::entry::{Entry, Kind, Listing, Permission, Stat, Written};
use crate::filesystem::resolve::LastLink;
use crate::filesystem::{Content, FileWriter, Filesystem, Part, Parts, Recursion, Snapshot, Walk, Walked, WriteMode};
use crate::path::WorkspacePath;

/// Maximum size of a file with holes. Memory has no holes, so the zeros take space.
const MOST_WITH_HOLES: u64 = 64 << 20;

impl Filesystem for MemoryFs {
    fn stat(&self, path: &WorkspacePath) -> Result<Stat, FsError> {
        Ok(self.look(path, LastLink::Followed)?.stat())
    }

    fn stat_entry(&self, path: &WorkspacePath) -> Result<Stat, FsError> {
        Ok(self.look(path, LastLink::Kept)?.stat())
    }

    fn resolve(&self, path: &WorkspacePath) -> Result<WorkspacePath, FsError> {
        self.resolved(path, LastLink::Followed)
    }

    fn read_bytes(&self, path: &WorkspacePath) -> Result<Bytes, FsError> {
        Ok(self.file(path)?.content.clone())
    }

    fn open_read(&self, path: &WorkspacePath) -> Result<Content, FsError> {
        Ok(Content::Bytes(self.read_bytes(path)?))
    }

    fn open_walked(&self, path: &WorkspacePath) -> Result<Content, FsError> {
        match self.look(path, LastLink::Kept)? {
            Seen::File(file) => Ok(Content::Bytes(file.content.clone())),
            _ => Err(FsError::NotFound { path: path.clone() }),
        }
    }

    fn hash(&self, path: &WorkspacePath) -> Result<ContentHash, FsError> {
        Ok(self.file(path)?.hash())
    }

    fn read_link(&self, path: &WorkspacePath) -> Result<Vec<u8>, FsError> {
        match self.look(path, LastLink::Kept)? {
            Seen::Link(link) => Ok(link.target.to_vec()),
            _ => Err(FsError::NotLink { path: path.clone() }),
        }
    }

    fn list(&self, path: &WorkspacePath, limit: usize) -> Result<Listing, FsError> {
        let directory = self.directory(path)?;
        let entry =
            |(name, node): (&std::sync::Arc<[u8]>, &Node)| Entry { path: path.joined(name), stat: node.seen().stat() };
        let entries = directory.entries.iter().take(limit).map(entry).collect();
        Ok(Listing { entries, total: directory.entries.len() })
    }

    fn walk_named(
        &self,
        path: &WorkspacePath,
        wants: &dyn Fn(&[u8], Kind) -> bool,
        visit: &mut dyn FnMut(&Walked) -> ControlFlow<(), Walk>,
    ) -> Result<(), FsError> {
        self.walk_wanted(path, wants, visit)
    }

    fn write_bytes(
        &mut self,
        path: &WorkspacePath,
        content: Bytes,
        mode: WriteMode,
        at_millis: i64,
    ) -> Result<Written, FsError> {
        let path = self.resolved(path, LastLink::Followed)?;
        let bytes = content.len() as u64;
        if path.is_root() {
            return Err(FsError::Root);
        }
        if mode == WriteMode::Create
            && let Ok(stat) = self.stat_entry(&path)
        {
            let directory = stat.kind == Kind::Directory;
            return Err(if directory { FsError::IsDirectory { path } } else { FsError::Exists { path } });
        }
        let change = match mode {
            WriteMode::Append => Change::Appended { path: path.clone(), content },
            WriteMode::Create | WriteMode::Overwrite => Change::Wrote { path: path.clone(), content },
        };
        self.apply(&change, at_millis)?;
        let file = self.file(&path)?;
        Ok(Written { path, bytes, hash: file.hash(), version: Some(file.version) })
    }

    fn open_write<'a>(
        &'a mut self,
        path: &WorkspacePath,
        mode: WriteMode,
        at_millis: i64,
    ) -> Result<Box<dyn FileWriter + 'a>, FsError> {
        Ok(Box::new(MemoryWriter { fs: self, path: path.clone(), mode, at_millis, content: Vec::new() }))
    }

    fn write_parts(
        &mut self,
        path: &WorkspacePath,
        parts: &mut dyn Parts,
        mode: WriteMode,
        at_millis: i64,
    ) -> Result<(), FsError> {
        let (mut content, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            let part = parts.next_part(&mut buffer);
            match part.map_err(|source| FsError::Io { action: "copy", path: path.clone(), source })? {
                Part::Data(count) => content.extend_from_slice(&buffer[..count]),
                Part::Hole(zeros) => {
                    let size = zeros.saturating_add(content.len() as u64);
                    let length = usize::try_from(size).ok().filter(|_| size <= MOST_WITH_HOLES);
                    let too_large = || FsError::TooLarge { path: path.clone(), size, limit: MOST_WITH_HOLES };
                    content.resize(length.ok_or_else(too_large)?, 0);
                }
                Part::End => return self.write_bytes(path, content.into(), mode, at_millis).map(drop),
            }
        }
    }

    fn mkdir(&mut self, path: &WorkspacePath, at_millis: i64) -> Result<(), FsError> {
        self.apply(&Change::MadeDirectory { path: path.clone() }, at_millis)
    }

    fn symlink(&mut self, path: &WorkspacePath, target: &[u8], at_millis: i64) -> Result<(), FsError> {
        let target = Bytes::copy_from_slice(target);
        self.apply(&Change::Linked { path: path.clone(), target }, at_millis)
    }

    fn set_permission(&mut self, path: &WorkspacePath, permission: Permission, at_millis: i64) -> Result<(), FsError> {
        self.apply(&Change::SetPermission { path: path.clone(), permission }, at_millis)
    }

    fn delete(&mut self, path: &WorkspacePath, recursion: Recursion) -> Result<u64, FsError> {
        if path.is_root() {
            return Err(FsError::Root);
        }
        let (path, node) = self.node(path, LastLink::Kept)?;
        if let Node::Directory(directory) = &node
            && recursion == Recursion::EmptyOnly
            && !directory.entries.is_empty()
        {
            return Err(FsError::DirectoryNotEmpty { path });
        }
        self.apply(&Change::Removed { path }, 0)?;
        Ok(node.extent().entries)
    }

    fn rename(&mut self, from: &WorkspacePath, to: &WorkspacePath, at_millis: i64) -> Result<(), FsError> {
        self.apply(&Change::Renamed { from: from.clone(), to: to.clone() }, at_millis)
    }

    fn copy(&mut self, from: &WorkspacePath, to: &WorkspacePath, at_millis: i64) -> Result<u64, FsError> {
        self.apply(&Change::Copied { from: from.clone(), to: to.clone() }, at_millis)?;
        let (_, node) = self.node(to, LastLink::Kept)?;
        Ok(node.extent().entries)
    }

    fn snapshot(&self) -> Result<Snapshot, FsError> {
        Ok(Snapshot::Memory(self.clone()))
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), FsError> {
        match snapshot {
            Snapshot::Memory(tree) => *self = tree.clone(),
            Snapshot::Disk(_) => return Err(FsError::ForeignSnapshot),
        }
        Ok(())
    }

    fn tree_hash(&self) -> Result<ContentHash, FsError> {
        Ok(self.root.hash())
    }
}
