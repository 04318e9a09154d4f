//! Private uid ranges. Each range in use has a file that contains the id of its box.
//!
//! The invariant: a range belongs to at most one box, across all processes that use the same
//! directory, because a file can only be created once.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::error::{At, BoxError};
use crate::spec::RANGE_LENGTH;

/// Start of the ranges, above the ids that distributions assign to users, services and
/// `/etc/subuid`.
const FIRST: u32 = 0x4000_0000;
/// Number of ranges, up to the ids that the kernel reserves.
const RANGES: u32 = (u32::MAX - FIRST) / RANGE_LENGTH - 1;

/// The uid ranges of one server, or of several that share a directory.
#[derive(Debug, Clone)]
pub struct UidRanges {
    directory: PathBuf,
}

impl UidRanges {
    /// The directory is created on first use.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Reserves a range for the box and returns its first id.
    pub fn take(&self, id: &str) -> Result<u32, BoxError> {
        fs::create_dir_all(&self.directory).at("make", &self.directory)?;
        // The start depends on the box's id, so that a released range is not reused at once.
        let start = id.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % RANGES;
        for step in 0..RANGES {
            let first = FIRST + (start + step) % RANGES * RANGE_LENGTH;
            let path = self.directory.join(first.to_string());
            match File::options().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    file.write_all(id.as_bytes()).at("write", &path)?;
                    // If a power loss undid this, a second box could get the same range.
                    file.sync_data().at("sync", &path)?;
                    return Ok(first);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).at("make", &path),
            }
        }
        Err(BoxError::NoUids { ranges: RANGES })
    }

    /// Syncs the directory, so that the names of the ranges in use are on the disk.
    pub fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    /// Returns the first id of the box's range.
    pub fn of(&self, id: &str) -> Option<u32> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut owned = entries.filter(|entry| fs::read(entry.path()).is_ok_and(|owner| owner == id.as_bytes()));
        owned.find_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// Releases a known range of the box. The box must be gone.
    pub fn give_back_range(&self, first: u32, id: &str) -> Result<(), BoxError> {
        let path = self.directory.join(first.to_string());
        match fs::read(&path) {
            Ok(owner) if owner == id.as_bytes() => fs::remove_file(&path).at("remove", &path),
            _ => Ok(()),
        }
    }

    /// Releases all ranges of the box. The box must be gone.
    pub fn give_back(&self, id: &str) -> Result<(), BoxError> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.at("list", &self.directory)?,
        };
        for entry in entries {
            let path = entry.at("list", &self.directory)?.path();
            if fs::read(&path).is_ok_and(|owner| owner == id.as_bytes()) {
                fs::remove_file(&path).at("remove", &path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_given_once_and_again_when_it_came_back() {
        let home = tempfile::tempdir().unwrap();
        let ranges = UidRanges::new(home.path().join("uids"));
        let first = ranges.take("ws_1").unwrap();
        let (second, third) = (ranges.take("ws_1").unwrap(), ranges.take("ws_2").unwrap());
        assert!(first != second && second != third && first != third);
        assert!(u64::from(FIRST) + u64::from(RANGES) * u64::from(RANGE_LENGTH) < u64::from(u32::MAX) - 65_536);
        ranges.give_back("ws_1").unwrap();
        assert_eq!(ranges.take("ws_1").unwrap(), first);
        ranges.give_back("ws_1").unwrap();
        ranges.give_back("ws_2").unwrap();
        assert_eq!(fs::read_dir(home.path().join("uids")).unwrap().count(), 0);
    }
}
