//! Parses entry names of archives.

use super::ArchiveError;
use crate::path::{NAME_MAX, WorkspacePath};

/// Maximum length of a path, within the limits of every backend and kernel.
const MAX_BYTES: usize = 4_000;
const MAX_DEPTH: usize = 100;

/// Returns the path of an entry; `None` for the archive's own root (`./`). Absolute names and `..`
/// are refused, not repaired.
pub(super) fn entry_path(name: &[u8]) -> Result<Option<WorkspacePath>, ArchiveError> {
    let refused = || ArchiveError::Name { name: shown(name) };
    if name.is_empty() || name.first() == Some(&b'/') {
        return Err(refused());
    }
    if name.len() > MAX_BYTES {
        return Err(ArchiveError::LongPath { name: shown(name), limit: MAX_BYTES });
    }
    let segments = name.split(|byte| *byte == b'/').filter(|segment| !matches!(*segment, b"" | b"."));
    let path = WorkspacePath::from_segments(segments).map_err(|_| refused())?;
    if path.depth() > MAX_DEPTH {
        return Err(ArchiveError::TooDeep { name: shown(name), limit: MAX_DEPTH });
    }
    if path.check_storable().is_err() {
        return Err(ArchiveError::LongName { name: shown(name), limit: NAME_MAX });
    }
    Ok((!path.is_root()).then_some(path))
}

pub(super) fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(200).collect()
}
