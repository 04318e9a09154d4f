//! Computes the changes that turn one tree into another, after mounts or a bundle filled it as a
//! whole.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use stead_fs::{Change, Filesystem, FsError, Kind, MemoryFs, Permission, Walk, WorkspacePath};

/// Returns the changes that give `after` when applied to `before` in this order.
pub(super) fn changes(before: &MemoryFs, after: &MemoryFs) -> Result<Vec<Change>, FsError> {
    let (old, new) = (inventory(before)?, inventory(after)?);
    let mut changes = Vec::new();
    // One change removes a whole subtree, so skip paths below a removed one.
    let mut gone: Option<&WorkspacePath> = None;
    for (path, kind) in &old {
        if new.get(path) != Some(kind) && !gone.is_some_and(|above| path.is_within(above)) {
            changes.push(Change::Removed { path: path.clone() });
            gone = Some(path);
        }
    }
    for (path, kind) in &new {
        let was = old.get(path).filter(|was| *was == kind);
        match kind {
            Kind::Directory if was.is_none() => changes.push(Change::MadeDirectory { path: path.clone() }),
            Kind::Directory | Kind::Special => {}
            Kind::Symlink => {
                let target = after.read_link(path)?;
                if was.is_none() || before.read_link(path)? != target {
                    changes.push(Change::Linked { path: path.clone(), target: target.into() });
                }
            }
            Kind::File => file(before, after, path, was.is_some(), &mut changes)?,
        }
    }
    Ok(changes)
}

fn file(
    before: &MemoryFs,
    after: &MemoryFs,
    path: &WorkspacePath,
    existed: bool,
    changes: &mut Vec<Change>,
) -> Result<(), FsError> {
    if !existed || before.hash(path)? != after.hash(path)? {
        changes.push(Change::Wrote { path: path.clone(), content: after.read_bytes(path)? });
    }
    let had = if existed { before.stat_entry(path)?.permission } else { Permission::Plain };
    let permission = after.stat_entry(path)?.permission;
    if had != permission {
        changes.push(Change::SetPermission { path: path.clone(), permission });
    }
    Ok(())
}

fn inventory(files: &MemoryFs) -> Result<BTreeMap<WorkspacePath, Kind>, FsError> {
    let mut found = BTreeMap::new();
    files.walk(&WorkspacePath::root(), &mut |walked| {
        if !walked.path.is_root() {
            found.insert(walked.path.clone(), walked.kind);
        }
        ControlFlow::Continue(Walk::Continue)
    })?;
    Ok(found)
}
