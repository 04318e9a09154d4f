//! A tar of a whole workspace, as [`super::export_tar`] writes it, made a tree again.

use std::io::{self, Read, Seek};

use super::ArchiveError;
use crate::entry::Permission;
use crate::error::FsError;
use crate::filesystem::{Filesystem, WriteMode};
use crate::path::WorkspacePath;

/// Unlike [`super::unpack`] it takes links as they are: the tar is a workspace as it was, and who reads the tree follows none of them out of it.
/// On an error what was made stays: unpack into something that can be thrown away.
pub fn unpack_tree<R: Read + Seek>(mut tar: R, files: &mut dyn Filesystem) -> Result<(), ArchiveError> {
    tar.rewind()?;
    let mut archive = tar::Archive::new(io::BufReader::with_capacity(256 << 10, tar));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path_bytes().into_owned();
        let segments = name.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty() && *segment != b".");
        let path = WorkspacePath::from_segments(segments).map_err(FsError::from)?;
        match entry.header().entry_type() {
            tar::EntryType::Directory => files.mkdir(&path, 0)?,
            tar::EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                files.symlink(&path, &target, 0)?;
            }
            tar::EntryType::Regular => {
                let executable = entry.header().mode()? & 0o100 != 0;
                let mut writer = files.open_write(&path, WriteMode::Create, 0)?;
                io::copy(&mut entry, &mut writer)?;
                writer.finish()?;
                if executable {
                    files.set_permission(&path, Permission::Executable, 0)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
