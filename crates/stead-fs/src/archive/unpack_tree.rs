//! Unpacks a tar of a whole workspace, as [`super::export_tar`] writes it.

use std::io::{self, Read, Seek};

use tar::EntryType;

use super::{ArchiveError, TarReader};
use crate::disk::DiskFs;
use crate::error::FsError;
use crate::filesystem::entry::Permission;
use crate::filesystem::{Filesystem, WriteMode};
use crate::path::WorkspacePath;

/// Unpacks the tar of a workspace and preserves holes. Unlike [`super::unpack`] it does not check
/// link targets, because readers of the tree follow no link out of it. After an error the entries
/// made so far stay, so unpack into a tree that can be discarded.
pub fn unpack_tree<R: Read + Seek>(tar: R, files: &mut dyn Filesystem) -> Result<(), ArchiveError> {
    unpack_each(tar, files, &mut |_, _, _| Ok(()))
}

/// Like [`unpack_tree`], with the mode bits of the tar. The owner can always read a file, and read
/// and change a directory, so that the tree can be read and removed.
pub fn unpack_exact<R: Read + Seek>(tar: R, files: &mut DiskFs) -> Result<(), ArchiveError> {
    let exact = files.clone();
    unpack_each(tar, files, &mut |path, kind, mode| match kind {
        EntryType::Directory => Ok(exact.set_mode(path, mode | 0o700)?),
        EntryType::Regular => Ok(exact.set_mode(path, mode | 0o400)?),
        _ => Ok(()),
    })
}

fn unpack_each<R: Read + Seek>(
    mut tar: R,
    files: &mut dyn Filesystem,
    made: &mut dyn FnMut(&WorkspacePath, EntryType, u32) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    tar.rewind()?;
    let mut members = TarReader::new(io::BufReader::with_capacity(256 << 10, tar));
    while let Some(member) = members.next_member()? {
        let segments = member.name.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
        let path = WorkspacePath::from_segments(segments).map_err(FsError::from)?;
        match member.kind {
            EntryType::Directory => files.mkdir(&path, 0)?,
            EntryType::Symlink => files.symlink(&path, &member.link, 0)?,
            EntryType::Regular => {
                files.write_parts(&path, &mut members, WriteMode::Create, 0)?;
                if member.mode & 0o100 != 0 {
                    files.set_permission(&path, Permission::Executable, 0)?;
                }
            }
            _ => continue,
        }
        made(&path, member.kind, member.mode)?;
    }
    Ok(())
}
