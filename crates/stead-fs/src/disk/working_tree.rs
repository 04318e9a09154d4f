//! Restores the working tree of a directory that people and programs of the host use too.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, linkat, renameat};
use rustix::io::Errno;

use super::create::{set_bits, split};
use super::snapshot::{collect, copy_link, same_bytes};
use super::write::Times;
use super::{DiskFs, errno};
use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::resolve::LastLink;
use crate::filesystem::{Recursion, Walk, Walked, WriteMode};
use crate::path::WorkspacePath;
use crate::search::WorkingTree;

/// Name of a link before it replaces its file.
const NEW_LINK: &str = ".stead-link";

impl DiskFs {
    /// Makes the working tree equal to a kept one. Entries that either tree leaves out stay: the
    /// repository, ignored files, and FIFOs, sockets and devices. A directory stays if it contains
    /// such entries. Touches only what differs, and can be repeated if it fails half way.
    pub fn restore_working_tree(&self, kept: &Self) -> Result<(), FsError> {
        let mut wanted = HashMap::new();
        let mut entries: Vec<Walked> = Vec::new();
        // The copy of a whole directory has its repository.
        let mut tree = WorkingTree::of(kept);
        collect(kept, |walked| {
            if tree.leaves_out(&walked.path, walked.kind) {
                return Walk::Skip;
            }
            wanted.insert(walked.path.clone(), walked.kind);
            entries.push(walked.clone());
            Walk::Continue
        })?;
        for (path, kind) in self.surplus(kept, &wanted)?.into_iter().rev() {
            match self.remove(&path, Recursion::EmptyOnly) {
                Err(FsError::NotFound { .. }) => {}
                Err(FsError::DirectoryNotEmpty { .. }) if kind == Kind::Directory && !wanted.contains_key(&path) => {}
                removed => drop(removed?),
            }
        }
        entries.iter().try_for_each(|entry| match entry.kind {
            Kind::Directory => self.make(&entry.path),
            Kind::File => self.restore_file(kept, &entry.path),
            Kind::Symlink => copy_link(kept, self, &entry.path),
            Kind::Special => Ok(()),
        })
    }

    /// Restores the content and the executable bit of a file. A file that exists keeps its other
    /// mode bits, because the copy of a whole directory has only the usual ones.
    fn restore_file(&self, kept: &Self, path: &WorkspacePath) -> Result<(), FsError> {
        let source = kept.find(path, LastLink::Kept)?;
        let old = match self.find(path, LastLink::Kept) {
            Ok(found) => Some(found.raw.st_mode & 0o777),
            Err(FsError::NotFound { .. }) => None,
            Err(other) => return Err(other),
        };
        let mode = source.raw.st_mode & 0o777;
        let mode = match old {
            None => mode,
            Some(old) if (old ^ mode) & 0o100 == 0 => old,
            Some(old) if mode & 0o100 != 0 => old | ((old & 0o444) >> 2),
            Some(old) => old & !0o111,
        };
        let (mut file, size) = kept.open_plain(path)?;
        let failed = |source| errno::io("restore", path, source);
        if same_bytes(self, path, &mut file, size).map_err(failed)? {
            return if old == Some(mode) { Ok(()) } else { self.set_mode(path, mode) };
        }
        io::Seek::rewind(&mut file).map_err(failed)?;
        let mut raw = source.raw;
        raw.st_mode = (raw.st_mode & !0o777) | mode;
        self.begin_write(path, WriteMode::Overwrite)?.fill_from(&mut file, &raw, Times::New)?.commit()?;
        Ok(())
    }

    /// Returns the entries of the working tree that are not wanted, parents first.
    fn surplus(
        &self,
        kept: &Self,
        wanted: &HashMap<WorkspacePath, Kind>,
    ) -> Result<Vec<(WorkspacePath, Kind)>, FsError> {
        let (mut now, mut then) = (WorkingTree::of(self), WorkingTree::of_kept(kept));
        let mut surplus = Vec::new();
        collect(self, |walked| {
            if wanted.get(&walked.path) == Some(&walked.kind) {
                return Walk::IfReadable;
            }
            let left_out = walked.kind == Kind::Special
                || now.leaves_out(&walked.path, walked.kind)
                || then.leaves_out(&walked.path, walked.kind);
            if left_out {
                return Walk::Skip;
            }
            surplus.push((walked.path.clone(), walked.kind));
            Walk::IfReadable
        })?;
        Ok(surplus)
    }

    /// Replaces each file that equals the one of an earlier tree by a hard link to that one, so
    /// that both take the disk space of one. No file of either tree may be written afterwards.
    pub fn share_equal_files(&self, earlier: &Self) -> Result<(), FsError> {
        let mut files = Vec::new();
        collect(self, |walked| {
            if walked.kind == Kind::File {
                files.push(walked.path.clone());
            }
            Walk::Continue
        })?;
        for path in files {
            self.stop.check()?;
            if self.equals_in(earlier, &path)? {
                self.link_from(earlier, &path)?;
            }
        }
        Ok(())
    }

    fn equals_in(&self, earlier: &Self, path: &WorkspacePath) -> Result<bool, FsError> {
        let Ok(old) = earlier.find(path, LastLink::Kept) else { return Ok(false) };
        let new = self.find(path, LastLink::Kept)?;
        if old.kind() != Kind::File || old.raw.st_mode != new.raw.st_mode {
            return Ok(false);
        }
        let (mut file, size) = self.open_plain(path)?;
        same_bytes(earlier, path, &mut file, size).map_err(|source| errno::io("compare", path, source))
    }

    fn link_from(&self, earlier: &Self, path: &WorkspacePath) -> Result<(), FsError> {
        let (parent, name) = split(path)?;
        let name = std::ffi::OsStr::from_bytes(name);
        // A link in the earlier tree may lead elsewhere: then the file keeps its own copy.
        let Ok(from) = earlier.root.directory(&parent) else { return Ok(()) };
        let failed = |errno| errno::error("link", path, errno);
        let to = self.root.directory(&parent).map_err(failed)?;
        match linkat(&from, name, &to, NEW_LINK, AtFlags::empty()) {
            Ok(()) => renameat(to.as_fd(), NEW_LINK, to.as_fd(), name).map_err(failed),
            // The tree has a file of this name, or the file has too many links.
            Err(Errno::EXIST | Errno::MLINK | Errno::XDEV | Errno::PERM) => Ok(()),
            Err(other) => Err(failed(other)),
        }
    }

    /// Sets the mode bits of a file or a directory.
    pub(crate) fn set_mode(&self, path: &WorkspacePath, mode: u32) -> Result<(), FsError> {
        set_bits(&self.find(path, LastLink::Kept)?, mode & 0o777)
    }
}
