//! Writes, snapshots and restores on a tree, on blocking threads.

use std::fs::File;
use std::io::{Read, Seek};

use stead_core::Timestamp;
use stead_core::event::{Existing, Parents};
use stead_fs::archive::{self, ArchiveError, ArchiveFormat, ArchiveLimits};
use stead_fs::{Change, ContentHash, Filesystem, FsError, MemoryFs, Recursion, WorkspacePath, WriteMode};

use super::compare;
use super::tree::Kept;
use super::workspace::existing_path;
use crate::contract::error::OperateError;
use crate::contract::workspace::{FileOrder, Placement};

/// A tree after an order, not yet published.
pub(super) struct Operated {
    pub(super) files: MemoryFs,
    pub(super) changes: Vec<Change>,
    pub(super) placement: Option<Placement>,
}

pub(super) fn operate(
    mut files: MemoryFs,
    kept: &Kept,
    limit: u64,
    order: FileOrder,
    now: Timestamp,
) -> Result<Operated, OperateError> {
    let mut placement = None;
    let changes = match order {
        FileOrder::Put { path, content, bytes, if_match, existing, parents } => {
            let path = existing_path(&path)?;
            check_match(&files, &path, if_match.as_deref())?;
            if existing == Existing::Refuse {
                check_absent(&files, &path)?;
            }
            if parents == Parents::Require
                && let Some(parent) = path.parent()
            {
                files.list(&parent, 0)?;
            }
            let content = read_all(content, bytes, &path)?;
            placement = Some(placement_at(&files, &path));
            files.write_bytes(&path, content.clone(), WriteMode::Overwrite, now.millis())?;
            vec![Change::Wrote { path, content }]
        }
        FileOrder::Unpack { path, archive } => {
            let before = files.clone();
            unpack(&mut files, archive, &existing_path(&path)?, limit, now)?;
            compare::changes(&before, &files)?
        }
        FileOrder::MakeDirectory { path } => {
            let path = existing_path(&path)?;
            placement = Some(placement_at(&files, &path));
            files.mkdir(&path, now.millis())?;
            vec![Change::MadeDirectory { path }]
        }
        FileOrder::Delete { path, if_match } => {
            let path = existing_path(&path)?;
            check_match(&files, &path, if_match.as_deref())?;
            files.delete(&path, Recursion::Recursive)?;
            vec![Change::Removed { path }]
        }
        FileOrder::Snapshot { .. } => Vec::new(),
        FileOrder::Restore { snapshot } | FileOrder::Rewind { snapshot, .. } => {
            files = kept.find(snapshot).ok_or(OperateError::NoSnapshot { snapshot })?;
            Vec::new()
        }
    };
    Ok(Operated { files, changes, placement })
}

fn placement_at(files: &MemoryFs, path: &WorkspacePath) -> Placement {
    if files.stat(path).is_ok() { Placement::Replaced } else { Placement::Created }
}

/// Returns the hash of the file at a path; `None` if there is none.
fn current(files: &MemoryFs, path: &WorkspacePath) -> Result<Option<ContentHash>, OperateError> {
    match files.hash(path) {
        Ok(hash) => Ok(Some(hash)),
        Err(FsError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn check_match(files: &MemoryFs, path: &WorkspacePath, if_match: Option<&str>) -> Result<(), OperateError> {
    let Some(wanted) = if_match else { return Ok(()) };
    let current = current(files, path)?;
    let matches = current.is_some_and(|current| wanted == "*" || current.to_string() == wanted);
    if matches { Ok(()) } else { Err(OperateError::Stale { current }) }
}

fn check_absent(files: &MemoryFs, path: &WorkspacePath) -> Result<(), OperateError> {
    current(files, path)?.map_or(Ok(()), |current| Err(OperateError::Present { current }))
}

fn read_all(mut content: File, bytes: u64, path: &WorkspacePath) -> Result<bytes::Bytes, FsError> {
    let mut read = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
    let done = content.read_to_end(&mut read);
    done.map_err(|source| FsError::Io { action: "read the new content of", path: path.clone(), source })?;
    Ok(read.into())
}

fn unpack(
    files: &mut MemoryFs,
    mut archive: File,
    below: &WorkspacePath,
    limit: u64,
    now: Timestamp,
) -> Result<(), OperateError> {
    let mut start = Vec::new();
    let read = archive.rewind().and_then(|()| (&mut archive).take(512).read_to_end(&mut start));
    read.map_err(ArchiveError::from)?;
    let format = ArchiveFormat::of_content(&start).ok_or(OperateError::ArchiveFormat)?;
    files.mkdir(below, now.millis())?;
    let limits = ArchiveLimits::default();
    let limits = ArchiveLimits { total_bytes: limits.total_bytes.min(limit), ..limits };
    archive::unpack(&mut archive, format, None, &limits, files, below, now.millis())?;
    Ok(())
}
