//! Private uid ranges: one file per range that is taken, with the name of the box that has it.
//!
//! The invariant: a range belongs to at most one box, across all processes that use the same directory, since a file is created only once.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use crate::error::{At, BoxError};
use crate::spec::RANGE_LENGTH;

/// Where the ranges begin: above what distributions give to people, services and `/etc/subuid`.
const FIRST: u32 = 0x4000_0000;
/// Up to, not including, the ids that the kernel keeps for itself.
const RANGES: u32 = (u32::MAX - FIRST) / RANGE_LENGTH - 1;

/// The ranges of one server, or of several that share a directory.
#[derive(Debug, Clone)]
pub struct UidRanges {
    directory: PathBuf,
}

impl UidRanges {
    /// The directory is made when it is needed.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The first id of a range that is the box's from now on.
    pub fn take(&self, id: &str) -> Result<u32, BoxError> {
        fs::create_dir_all(&self.directory).at("make", &self.directory)?;
        // Begin somewhere that depends on the box, so that ranges are not taken up again at once.
        let start = id.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % RANGES;
        for step in 0..RANGES {
            let first = FIRST + (start + step) % RANGES * RANGE_LENGTH;
            let path = self.directory.join(first.to_string());
            match File::options().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    file.write_all(id.as_bytes()).at("write", &path)?;
                    // A range that a power loss gave back would become a second box's.
                    file.sync_data().at("sync", &path)?;
                    return Ok(first);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).at("make", &path),
            }
        }
        Err(BoxError::NoUids { ranges: RANGES })
    }

    /// Waits until the disk has the names of the ranges that are taken.
    pub fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    /// The first id of a range the box has already.
    pub fn of(&self, id: &str) -> Option<u32> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut owned = entries.filter(|entry| fs::read(entry.path()).is_ok_and(|owner| owner == id.as_bytes()));
        owned.find_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// Gives back a range that is known to be the box's. The box must be gone.
    pub fn give_back_range(&self, first: u32, id: &str) -> Result<(), BoxError> {
        let path = self.directory.join(first.to_string());
        match fs::read(&path) {
            Ok(owner) if owner == id.as_bytes() => fs::remove_file(&path).at("remove", &path),
            _ => Ok(()),
        }
    }

    /// Gives back what the box has. The box must be gone.
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
