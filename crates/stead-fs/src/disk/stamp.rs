//! Detects whether a tree may have changed, without reading its files.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;
use stead_core::ContentHash;
use stead_core::content_hash::Hasher;

use super::DiskFs;

use crate::error::FsError;
use crate::filesystem::Walk;
use crate::filesystem::entry::Kind;
use crate::path::WorkspacePath;

/// The kernel's clock for file times advances in steps of some milliseconds. A file that changed
/// within the last step may change again with the same time.
const STEP: Duration = Duration::from_millis(20);

impl DiskFs {
    /// A hash over the names, inodes, modes, sizes and change times of all entries. It changes
    /// whenever a reachable file changes, because no process can set a file's change time. `None`
    /// if an entry changed just now.
    pub fn stamp(&self) -> Result<Option<ContentHash>, FsError> {
        let mut hasher = Hasher::default();
        let mut latest = 0_i128;
        let mut sees = |directory: std::os::fd::BorrowedFd<'_>, name: &[u8]| {
            let raw = match statat(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(raw) => raw,
                // Removed since its name was read; the change time of its directory shows that.
                Err(Errno::NOENT) => return Ok(()),
                Err(other) => return Err(other),
            };
            let changed = i128::from(raw.st_ctime) * 1_000_000_000 + i128::from(raw.st_ctime_nsec);
            latest = latest.max(changed);
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name);
            for fact in [raw.st_ino, u64::from(raw.st_mode), raw.st_size.cast_unsigned()] {
                hasher.update(&fact.to_le_bytes());
            }
            hasher.update(&changed.to_le_bytes());
            Ok(())
        };
        // A directory that cannot be listed cannot be read either.
        let mut visit = |_: &_| ControlFlow::Continue(Walk::IfReadable);
        let directories = |_: &[u8], kind| kind == Kind::Directory;
        self.walk_seeing(&WorkspacePath::root(), &directories, Some(&mut sees), &mut visit)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let settled =
            latest + i128::try_from(STEP.as_nanos()).unwrap_or(0) < i128::try_from(now.as_nanos()).unwrap_or(0);
        Ok(settled.then(|| hasher.finish()))
    }
}
