//! Git LFS objects by hash, next to a mirror.
//!
//! Each object is written aside, measured and hashed while it arrives, synced, and only then named.
//! All objects have the same old modification time. So a checkout can hard-link them, and its index
//! knows their time without a stat.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::statvfs;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::pointer::{Oid, Pointer};
use crate::error::{GitError, disk};

/// The modification time of every object: the start of 2000. It is before any action of an agent,
/// and within the range of archive formats.
pub(crate) const SECONDS: u32 = 946_684_800;

#[derive(Debug, Clone)]
pub(crate) struct Objects(PathBuf);

/// The progress of transfers, and the flag that stops them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) bytes: AtomicU64,
    pub(super) objects: AtomicU64,
    pub(super) stopped: AtomicBool,
}

impl Objects {
    pub(crate) fn of(mirror: &Path) -> Self {
        Self(mirror.join("lfs"))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.0
    }

    pub(crate) fn path(&self, oid: &Oid) -> PathBuf {
        self.0.join("objects").join(oid.path())
    }

    pub(super) fn has(&self, pointer: &Pointer) -> bool {
        fs::symlink_metadata(self.path(&pointer.oid)).is_ok_and(|found| found.is_file() && found.len() == pointer.size)
    }

    /// Removes the remains of a killed process. The caller holds the lock.
    pub(super) fn prepare(&self) -> Result<(), GitError> {
        let aside = self.aside();
        if aside.exists() {
            fs::remove_dir_all(&aside).map_err(disk(&aside))?;
        }
        fs::create_dir_all(&aside).map_err(disk(&aside))
    }

    pub(super) fn aside(&self) -> PathBuf {
        self.0.join("aside")
    }

    /// Checks that this many more bytes fit on the disk.
    pub(super) fn weigh(&self, needed: u64) -> Result<(), GitError> {
        let free = self.free().map_err(disk(&self.0))?;
        if needed > free { Err(GitError::NoSpace { needed, free }) } else { Ok(()) }
    }

    fn free(&self) -> io::Result<u64> {
        let found = statvfs(&self.0)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Stores content after checking that it is what the pointer names.
    pub(super) fn take(&self, pointer: &Pointer, from: impl Read, tally: &Tally) -> Result<(), Untrue> {
        match (self.keep(pointer, from, tally), self.free()) {
            (Err(Untrue::Io(error)), Ok(free)) if error.kind() == io::ErrorKind::StorageFull => {
                Err(Untrue::NoRoom { free })
            }
            (kept, _) => kept,
        }
    }

    fn keep(&self, pointer: &Pointer, from: impl Read, tally: &Tally) -> Result<(), Untrue> {
        let aside = self.aside();
        let mut file = NamedTempFile::new_in(&aside)?;
        copy(pointer, from, file.as_file_mut(), tally)?;
        let path = self.path(&pointer.oid);
        let parent = path.parent().unwrap_or(&self.0);
        fs::create_dir_all(parent)?;
        file.as_file().set_permissions(Permissions::from_mode(0o644))?;
        file.as_file().set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(SECONDS.into()))?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// The reason why content was rejected.
#[derive(Debug)]
pub(super) enum Untrue {
    Io(io::Error),
    Short {
        bytes: u64,
    },
    Long,
    Hash {
        found: Oid,
    },
    /// Free bytes on the disk, without this object.
    NoRoom {
        free: u64,
    },
    Stopped,
}

impl From<io::Error> for Untrue {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Copies content and checks that it is exactly what the pointer names.
pub(super) fn copy(pointer: &Pointer, mut from: impl Read, to: &mut impl Write, tally: &Tally) -> Result<(), Untrue> {
    let (mut hash, mut bytes, mut piece) = (Sha256::new(), 0_u64, vec![0; 128 << 10]);
    loop {
        if tally.stopped.load(Ordering::Relaxed) {
            return Err(Untrue::Stopped);
        }
        let count = from.read(&mut piece)?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        if bytes > pointer.size {
            return Err(Untrue::Long);
        }
        hash.update(&piece[..count]);
        to.write_all(&piece[..count])?;
        tally.bytes.fetch_add(count as u64, Ordering::Relaxed);
    }
    if bytes < pointer.size {
        return Err(Untrue::Short { bytes });
    }
    let found = Oid::of(&hash.finalize());
    if found == pointer.oid { Ok(()) } else { Err(Untrue::Hash { found }) }
}

/// Checks that a file is what the pointer names.
pub(super) fn check(pointer: &Pointer, file: &File) -> Result<(), Untrue> {
    copy(pointer, file, &mut io::sink(), &Tally::default())
}
