//! Ends all boxes of a provider while no server runs, so that its volumes can be copied
//! consistently.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::remove::{PATIENCE, end_recorded, wait_for_device};
use crate::error::{At, BoxError};
use crate::keeper;

/// Kills the processes of every box below a provider's directory and waits until the kernel has
/// unmounted their volumes. Files stay. Returns the number of boxes that were running. A container
/// of a remote Podman has no process here and is left alone.
///
/// The caller holds the home's lock, so that no server starts a box meanwhile. It has also checked
/// that the home is not a copy, because the records in a copy name the processes of the original.
pub fn end_all(provider: &Path) -> Result<usize, BoxError> {
    let mut ended = 0;
    for directory in entries(&provider.join("boxes"))? {
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        let Some(record) = keeper::read(&name, &directory) else { continue };
        ended += usize::from(record.remains().is_some());
        end_recorded(&directory, &record)?;
    }
    let deadline = Instant::now() + PATIENCE;
    for below in ["boxes", "volumes"] {
        for directory in entries(&provider.join(below))? {
            wait_for_device(&directory, deadline)?;
        }
    }
    Ok(ended)
}

fn entries(above: &Path) -> Result<Vec<PathBuf>, BoxError> {
    let listed = match fs::read_dir(above) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.at("list", above)?,
    };
    let paths: io::Result<Vec<PathBuf>> = listed.map(|entry| Ok(entry?.path())).collect();
    paths.at("list", above)
}
