//! Writes the merged layers: directories, then files, then links, so that no written path leads
//! through a link.

use std::collections::BTreeMap;
use std::io::{self, Read};

use super::super::meter::Meter;
use super::super::{ArchiveError, Body};
use super::merge::{Node, Source, Tree};
use super::{Image, Written};
use crate::disk::DiskFs;
use crate::filesystem::entry::Permission;
use crate::filesystem::{Content, Filesystem, WriteMode};
use crate::path::WorkspacePath;

pub(super) fn all(image: &Image, tree: Tree, meter: &Meter, into: &mut DiskFs) -> Result<Written, ArchiveError> {
    let mut written = Written::default();
    let mut files: BTreeMap<Source, Vec<WorkspacePath>> = BTreeMap::new();
    let mut links: Vec<(WorkspacePath, Vec<u8>)> = Vec::new();
    tree.walk(&mut |path, node| {
        match node {
            Node::Directory(_) => {
                into.mkdir(path, 0)?;
                written.directories += 1;
            }
            Node::File(source) => files.entry(*source).or_default().push(path.clone()),
            Node::Link(target) => links.push((path.clone(), target.clone())),
        }
        Ok(())
    })?;
    drop(tree);
    for (number, layer) in image.layers.iter().enumerate() {
        let mut entry_number = 0;
        image.each(layer, meter, &mut |entry| {
            let source = Source { layer: number, entry: entry_number };
            entry_number += 1;
            let (Body::File { reader, permission }, Some(paths)) = (entry.body, files.remove(&source)) else {
                return Ok(());
            };
            written.files += paths.len() as u64;
            written.bytes += put(into, meter, &paths, reader, permission)?;
            Ok(())
        })?;
    }
    if !files.is_empty() {
        return Err(super::damaged("it changed while it was read"));
    }
    for (path, target) in &links {
        into.symlink(path, target, 0)?;
    }
    written.links = links.len() as u64;
    Ok(written)
}

/// Writes one file under all its names. Each further name is a copy and counts as one.
fn put(
    into: &mut DiskFs,
    meter: &Meter,
    paths: &[WorkspacePath],
    reader: &mut dyn Read,
    permission: Permission,
) -> Result<u64, ArchiveError> {
    let Some((first, others)) = paths.split_first() else { return Ok(0) };
    let size = copy(into, first, reader, meter.left())?;
    let mut bytes = size;
    meter.add(size)?;
    for path in others {
        let mut again: Box<dyn Read> = match into.open_walked(first)? {
            Content::Bytes(bytes) => Box::new(io::Cursor::new(bytes)),
            Content::Stream { reader, .. } => Box::new(reader),
        };
        let copied = copy(into, path, &mut *again, meter.left())?;
        meter.add(copied)?;
        bytes += copied;
    }
    if permission == Permission::Executable {
        paths.iter().try_for_each(|path| into.set_permission(path, permission, 0))?;
    }
    Ok(bytes)
}

fn copy(into: &mut DiskFs, path: &WorkspacePath, reader: &mut dyn Read, most: u64) -> Result<u64, ArchiveError> {
    let mut writer = into.open_write(path, WriteMode::Create, 0)?;
    let size = io::copy(&mut reader.take(most.saturating_add(1)), &mut writer)?;
    if size > most {
        return Err(ArchiveError::TooLarge { limit: most });
    }
    writer.finish()?;
    Ok(size)
}
