//! Makes one tree equal to another on any backend, for example a fork of a memory tree on disk, or
//! changes applied back to a host.
//!
//! It touches only what differs. It is not atomic: after a failure the changes made so far stay,
//! and it can be repeated.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::error::FsError;
use crate::filesystem::entry::Kind;
use crate::filesystem::{Content, Filesystem, Recursion, Walk, WriteMode};
use crate::path::WorkspacePath;
use crate::sparse::{FileParts, same_content};

/// Changes `to` until it equals `from`, and returns the touched paths, sorted. Special files of
/// `from` are not copied, and those of `to` are not touched.
pub fn mirror(from: &dyn Filesystem, to: &mut dyn Filesystem, at_millis: i64) -> Result<Vec<WorkspacePath>, FsError> {
    let wanted = inventory(from)?;
    let mut touched = Vec::new();
    for (path, kind) in inventory(to)? {
        let surplus = kind != Kind::Special && wanted.get(&path) != Some(&kind);
        let gone = touched.last().is_some_and(|last| path.is_within(last));
        if surplus && !gone {
            to.delete(&path, Recursion::Recursive)?;
            touched.push(path);
        }
    }
    copy_all(from, to, &wanted, at_millis, &mut touched)?;
    touched.sort_unstable();
    touched.dedup();
    Ok(touched)
}

/// Copies the entries of `from` over those of `to`. Paths that only `to` has stay.
pub fn lay(from: &dyn Filesystem, to: &mut dyn Filesystem, at_millis: i64) -> Result<(), FsError> {
    let wanted = inventory(from)?;
    for (path, kind) in &wanted {
        let other = to.stat_entry(path).is_ok_and(|there| there.kind != *kind);
        if other && *kind != Kind::Special {
            to.delete(path, Recursion::Recursive)?;
        }
    }
    copy_all(from, to, &wanted, at_millis, &mut Vec::new())
}

fn copy_all(
    from: &dyn Filesystem,
    to: &mut dyn Filesystem,
    wanted: &BTreeMap<WorkspacePath, Kind>,
    at_millis: i64,
    touched: &mut Vec<WorkspacePath>,
) -> Result<(), FsError> {
    for (path, kind) in wanted {
        let changed = match kind {
            Kind::Directory => make_directory(to, path, at_millis)?,
            Kind::File => copy_file(from, to, path, at_millis)?,
            Kind::Symlink => copy_link(from, to, path, at_millis)?,
            Kind::Special => false,
        };
        if changed {
            touched.push(path.clone());
        }
    }
    Ok(())
}

fn inventory(fs: &dyn Filesystem) -> Result<BTreeMap<WorkspacePath, Kind>, FsError> {
    let mut entries = BTreeMap::new();
    fs.walk(&WorkspacePath::root(), &mut |walked| {
        entries.insert(walked.path.clone(), walked.kind);
        ControlFlow::Continue(Walk::Continue)
    })?;
    Ok(entries)
}

fn make_directory(to: &mut dyn Filesystem, path: &WorkspacePath, at_millis: i64) -> Result<bool, FsError> {
    if to.stat_entry(path).is_ok() {
        return Ok(false);
    }
    to.mkdir(path, at_millis)?;
    Ok(true)
}

fn copy_link(
    from: &dyn Filesystem,
    to: &mut dyn Filesystem,
    path: &WorkspacePath,
    at_millis: i64,
) -> Result<bool, FsError> {
    let target = from.read_link(path)?;
    match to.read_link(path) {
        Ok(old) if old == target => return Ok(false),
        Ok(_) => drop(to.delete(path, Recursion::EmptyOnly)?),
        Err(_) => {}
    }
    to.symlink(path, &target, at_millis)?;
    Ok(true)
}

fn copy_file(
    from: &dyn Filesystem,
    to: &mut dyn Filesystem,
    path: &WorkspacePath,
    at_millis: i64,
) -> Result<bool, FsError> {
    let wanted = from.stat_entry(path)?;
    let old = to.stat_entry(path).ok();
    let same_size = old.as_ref().is_some_and(|old| old.size == wanted.size);
    let same = same_size && has_same_content(from, to, path)?;
    if !same {
        match from.open_walked(path)? {
            Content::Bytes(bytes) => drop(to.write_bytes(path, bytes, WriteMode::Overwrite, at_millis)?),
            Content::Stream { mut reader, size } => {
                to.write_parts(path, &mut FileParts::new(&mut *reader, size), WriteMode::Overwrite, at_millis)?;
            }
        }
    }
    let permission = to.stat_entry(path)?.permission;
    if permission != wanted.permission {
        to.set_permission(path, wanted.permission, at_millis)?;
    }
    Ok(!same || permission != wanted.permission)
}

/// Returns true if a regular file has the same content in both trees. Skips holes that both have.
pub(crate) fn has_same_content(
    from: &dyn Filesystem,
    to: &dyn Filesystem,
    path: &WorkspacePath,
) -> Result<bool, FsError> {
    match (from.open_walked(path)?, to.open_walked(path)?) {
        (Content::Stream { reader: mut ours, size }, Content::Stream { reader: mut theirs, size: other }) => {
            let same = size == other
                && same_content(&mut *ours, &mut *theirs, size).map_err(|source| FsError::Io {
                    action: "compare",
                    path: path.clone(),
                    source,
                })?;
            Ok(same)
        }
        _ => Ok(to.hash(path)? == from.hash(path)?),
    }
}
