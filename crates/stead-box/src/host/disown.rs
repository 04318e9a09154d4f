//! Handles a directory that was copied together with the record of a box that still belongs to
//! another home.

use std::fs;
use std::io;
use std::path::Path;

use super::launch::HELD_FILE;
use crate::error::{At, BoxError};
use crate::record::{self, OwnerRecord};

/// Removes the record of the box in this directory if the box belongs to one of these instances.
/// The files of the workspace stay, and nothing else on the host changes. Returns the record.
pub fn disown(directory: &Path, instances: &[String]) -> Result<Option<OwnerRecord>, BoxError> {
    let record = OwnerRecord::read(directory).at("read the record in", directory)?;
    let Some(record) = record.filter(|record| instances.contains(&record.instance)) else { return Ok(None) };
    // Remove the record last, so that the next start finds it again if this is interrupted.
    for name in ["control.sock", HELD_FILE, record::FILE] {
        match fs::remove_file(directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).at("remove from", directory),
            _ => {}
        }
    }
    Ok(Some(record))
}

impl OwnerRecord {
    /// Describes the box's live init process and control groups for a log line; `None` if there are
    /// none.
    pub fn remains(&self) -> Option<String> {
        let process = self.init.as_ref().filter(|init| init.is_alive()).map(|init| format!("process {}", init.pid));
        let groups = self.cgroups.iter().filter(|group| group.exists()).map(|group| group.display().to_string());
        let found: Vec<String> = process.into_iter().chain(groups).collect();
        (!found.is_empty()).then(|| format!("box {} of instance {}: {}", self.id, self.instance, found.join(", ")))
    }
}
