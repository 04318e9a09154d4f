//! Implements the filesystem contract on disk. Each method delegates to another file of this
//! module.

use std::io::Read;
use std::ops::ControlFlow;

use bytes::Bytes;
use stead_core::ContentHash;

use super::open::{link_target, stat};
use super::{DiskFs, errno};

use crate::error::FsError;
use crate::filesystem::entry::{Kind, Listing, Permission, Stat, Written};
use crate::filesystem::resolve::LastLink;
use crate::filesystem::{Content, FileWriter, Filesystem, Parts, Recursion, Snapshot, Walk, Walked, WriteMode};
use crate::path::WorkspacePath;
use crate::sparse::hash_file::hash_file;
use crate::tree_hash;

/// Maximum number of bytes that are read into memory at once.
const WHOLE: u64 = 64 << 20;

impl Filesystem for DiskFs {
    fn stat(&self, path: &WorkspacePath) -> Result<Stat, FsError> {
        Ok(stat(&self.find(path, LastLink::Followed)?.raw))
    }

    fn stat_entry(&self, path: &WorkspacePath) -> Result<Stat, FsError> {
        Ok(stat(&self.find(path, LastLink::Kept)?.raw))
    }

    fn resolve(&self, path: &WorkspacePath) -> Result<WorkspacePath, FsError> {
        Ok(self.look_up(path, LastLink::Followed)?.0)
    }

    fn read_bytes(&self, path: &WorkspacePath) -> Result<Bytes, FsError> {
        let (file, size) = self.open_file(path)?;
        if size > WHOLE {
            return Err(FsError::TooLarge { path: path.clone(), size, limit: WHOLE });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        // The file may grow while it is read, so limit the read.
        let read = file.take(WHOLE + 1).read_to_end(&mut bytes);
        let length = read.map_err(|source| errno::io("read", path, source))? as u64;
        if length > WHOLE {
            return Err(FsError::TooLarge { path: path.clone(), size: length, limit: WHOLE });
        }
        Ok(bytes.into())
    }

    fn open_read(&self, path: &WorkspacePath) -> Result<Content, FsError> {
        let (file, size) = self.open_file(path)?;
        Ok(Content::Stream { reader: Box::new(file), size })
    }

    fn open_walked(&self, path: &WorkspacePath) -> Result<Content, FsError> {
        let (file, size) = self.open_plain(path)?;
        Ok(Content::Stream { reader: Box::new(file), size })
    }

    fn hash(&self, path: &WorkspacePath) -> Result<ContentHash, FsError> {
        let (mut file, size) = self.open_file(path)?;
        hash_file(&mut file, size).map_err(|source| errno::io("read", path, source))
    }

    fn read_link(&self, path: &WorkspacePath) -> Result<Vec<u8>, FsError> {
        let found = self.find(path, LastLink::Kept)?;
        if found.kind() == Kind::Symlink { link_target(&found) } else { Err(FsError::NotLink { path: path.clone() }) }
    }

    fn list(&self, path: &WorkspacePath, limit: usize) -> Result<Listing, FsError> {
        self.list_directory(path, limit)
    }

    fn walk_named(
        &self,
        path: &WorkspacePath,
        wants: &dyn Fn(&[u8], Kind) -> bool,
        visit: &mut dyn FnMut(&Walked) -> ControlFlow<(), Walk>,
    ) -> Result<(), FsError> {
        self.walk_below(path, wants, visit)
    }

    fn write_bytes(
        &mut self,
        path: &WorkspacePath,
        content: Bytes,
        mode: WriteMode,
        _at_millis: i64,
    ) -> Result<Written, FsError> {
        use std::io::Write;
        let mut writer = self.begin_write(path, mode)?;
        writer.write_all(&content).map_err(|source| errno::io("write", path, source))?;
        writer.commit()
    }

    fn open_write<'a>(
        &'a mut self,
        path: &WorkspacePath,
        mode: WriteMode,
        _at_millis: i64,
    ) -> Result<Box<dyn FileWriter + 'a>, FsError> {
        Ok(Box::new(self.begin_write(path, mode)?))
    }

    fn write_parts(
        &mut self,
        path: &WorkspacePath,
        parts: &mut dyn Parts,
        mode: WriteMode,
        _at_millis: i64,
    ) -> Result<(), FsError> {
        let mut writer = self.begin_write(path, mode)?;
        writer.write_parts(parts)?;
        writer.commit().map(drop)
    }

    fn mkdir(&mut self, path: &WorkspacePath, _at_millis: i64) -> Result<(), FsError> {
        self.make(path)
    }

    fn symlink(&mut self, path: &WorkspacePath, target: &[u8], _at_millis: i64) -> Result<(), FsError> {
        self.make_link(path, target)
    }

    fn set_permission(&mut self, path: &WorkspacePath, permission: Permission, _at_millis: i64) -> Result<(), FsError> {
        self.permit(path, permission)
    }

    fn delete(&mut self, path: &WorkspacePath, recursion: Recursion) -> Result<u64, FsError> {
        self.remove(path, recursion)
    }

    fn rename(&mut self, from: &WorkspacePath, to: &WorkspacePath, _at_millis: i64) -> Result<(), FsError> {
        self.move_entry(from, to)
    }

    fn copy(&mut self, from: &WorkspacePath, to: &WorkspacePath, _at_millis: i64) -> Result<u64, FsError> {
        self.copy_entry(from, to)
    }

    fn snapshot(&self) -> Result<Snapshot, FsError> {
        Ok(Snapshot::Disk(self.snapshot_now()?))
    }

    fn restore(&mut self, snapshot: &Snapshot) -> Result<(), FsError> {
        match snapshot {
            Snapshot::Disk(snapshot) => self.restore_from(snapshot),
            Snapshot::Memory(_) => Err(FsError::ForeignSnapshot),
        }
    }

    fn tree_hash(&self) -> Result<ContentHash, FsError> {
        tree_hash::of(self)
    }
}
