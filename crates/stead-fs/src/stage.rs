//! Creates many new entries or none: dropping a stage before [`Stage::keep`] removes its entries.
//!
//! A stage creates only new entries. An existing entry is an error, so removing the entries of a
//! stage loses no older data.

use std::io::{self, Read, Write};

use crate::error::FsError;
use crate::filesystem::entry::Permission;
use crate::filesystem::{Filesystem, Recursion, WriteMode};
use crate::path::WorkspacePath;
use stead_core::ContentHash;

pub(crate) struct Stage<'a> {
    fs: &'a mut dyn Filesystem,
    at_millis: i64,
    /// The topmost new entries, in the order of their creation.
    made: Vec<WorkspacePath>,
}

/// Errors of staging a file.
pub(crate) enum StageError {
    Fs(FsError),
    /// Reading the source failed.
    Source(io::Error),
    /// The source has more bytes than this limit.
    TooLong {
        limit: u64,
    },
}

impl From<FsError> for StageError {
    fn from(error: FsError) -> Self {
        Self::Fs(error)
    }
}

impl<'a> Stage<'a> {
    pub(crate) fn new(fs: &'a mut dyn Filesystem, at_millis: i64) -> Self {
        Self { fs, at_millis, made: Vec::new() }
    }

    /// Creates a file with all bytes of the reader, at most `limit`. Returns their number and hash.
    pub(crate) fn file(
        &mut self,
        path: &WorkspacePath,
        reader: &mut dyn Read,
        limit: u64,
        permission: Permission,
    ) -> Result<(u64, ContentHash), StageError> {
        self.note(path)?;
        let mut writer = self.fs.open_write(path, WriteMode::Create, self.at_millis)?;
        let mut buffer = vec![0; 64 * 1024];
        let mut total = 0;
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(StageError::Source(error)),
            };
            total += count as u64;
            if total > limit {
                return Err(StageError::TooLong { limit });
            }
            writer.write_all(&buffer[..count]).map_err(|source| FsError::writing(path, source))?;
        }
        let written = writer.finish()?;
        if permission == Permission::Executable {
            self.fs.set_permission(path, permission, self.at_millis)?;
        }
        Ok((total, written.hash))
    }

    pub(crate) fn directory(&mut self, path: &WorkspacePath) -> Result<(), FsError> {
        self.note(path)?;
        self.fs.mkdir(path, self.at_millis)
    }

    pub(crate) fn link(&mut self, path: &WorkspacePath, target: &[u8]) -> Result<(), FsError> {
        self.note(path)?;
        self.fs.symlink(path, target, self.at_millis)
    }

    pub(crate) fn fs(&self) -> &dyn Filesystem {
        self.fs
    }

    /// Keeps all entries of the stage.
    pub(crate) fn keep(mut self) {
        self.made.clear();
    }

    /// Records the topmost missing entry among this path and its ancestors.
    fn note(&mut self, path: &WorkspacePath) -> Result<(), FsError> {
        if self.made.last().is_some_and(|made| path.is_within(made)) {
            return Ok(());
        }
        let mut at = WorkspacePath::root();
        for segment in path.segments() {
            at = at.join(segment)?;
            match self.fs.stat_entry(&at) {
                Ok(_) => {}
                Err(FsError::NotFound { .. }) => {
                    self.made.push(at);
                    return Ok(());
                }
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        for path in self.made.drain(..).rev() {
            // The delete fails if the entry was recorded and then not created.
            let _ = self.fs.delete(&path, Recursion::Recursive);
        }
    }
}
