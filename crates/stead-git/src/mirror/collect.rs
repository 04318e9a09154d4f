//! Collects unused mirrors and reports disk usage.
//!
//! Every live session of a repository holds its mirror. An unheld mirror is kept for a while,
//! because the next session then needs no transfer. Checkouts have their own objects (as hard links
//! to the packs), so removing a mirror does not affect them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use stead_core::identity::Tenant;
use stead_core::repository::RepositoryUrl;

use crate::error::{GitError, disk};
use crate::mirror::Mirrors;

/// A file whose modification time is the time of the mirror's last use.
const USED: &str = "used";

/// Limits for mirrors that no live session uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Maximum time without use.
    pub unused: Duration,
    /// Maximum total bytes of unheld mirrors; the least recently used are removed first.
    pub bytes: u64,
    /// A mirror used within this time always stays, because an operation may be about to read it.
    pub grace: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { unused: Duration::from_secs(30 * 24 * 3600), bytes: 20 << 30, grace: Duration::from_secs(600) }
    }
}

/// The repository of a live session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldRepository {
    /// The session's project, or the platform.
    pub tenant: Tenant,
    pub url: RepositoryUrl,
}

/// The usage of one mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorUse {
    pub url: String,
    /// Size on disk.
    pub bytes: u64,
    pub used: SystemTime,
    /// True if a live session uses it.
    pub held: bool,
    path: PathBuf,
}

impl Mirrors {
    /// Every mirror, the least recently used first. `held` are the repositories of live sessions.
    pub fn usage(&self, held: &[HeldRepository]) -> Result<Vec<MirrorUse>, GitError> {
        let held: HashSet<PathBuf> = held.iter().map(|held| self.mirror_path(&held.tenant, &held.url)).collect();
        let mut mirrors = Vec::new();
        for entry in fs::read_dir(self.directory()).map_err(disk(self.directory()))?.flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "git") {
                continue;
            }
            // A mirror without a URL is being created or removed at this moment.
            let Ok(url) = fs::read_to_string(path.join("url")) else { continue };
            let bytes = measure(&path).unwrap_or(0);
            mirrors.push(MirrorUse { url, bytes, used: used(&path), held: held.contains(&path), path });
        }
        mirrors.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        Ok(mirrors)
    }

    /// Lists the mirrors that no live session uses and that exceed the retention.
    pub fn unneeded(&self, retention: Retention, held: &[HeldRepository]) -> Result<Vec<MirrorUse>, GitError> {
        let unheld: Vec<MirrorUse> = self.usage(held)?.into_iter().filter(|mirror| !mirror.held).collect();
        let mut kept_bytes: u64 = unheld.iter().map(|mirror| mirror.bytes).sum();
        // The list begins with the least recently used mirror.
        let goes = |mirror: &MirrorUse| {
            let age = SystemTime::now().duration_since(mirror.used).unwrap_or_default();
            let goes = (age >= retention.unused || kept_bytes > retention.bytes) && age >= retention.grace;
            kept_bytes -= if goes { mirror.bytes } else { 0 };
            goes
        };
        Ok(unheld.into_iter().filter(goes).collect())
    }

    /// Removes the mirrors that [`Self::unneeded`] lists and returns them. A mirror that is in use,
    /// or was used since it was listed, stays.
    pub fn collect(&self, retention: Retention, held: &[HeldRepository]) -> Result<Vec<MirrorUse>, GitError> {
        let mut collected = Vec::new();
        for mirror in self.unneeded(retention, held)? {
            if self.remove(&mirror)? {
                collected.push(mirror);
            }
        }
        Ok(collected)
    }

    /// Renames the mirror while it is locked, and then removes it. The next session of the
    /// repository creates a new mirror.
    fn remove(&self, mirror: &MirrorUse) -> Result<bool, GitError> {
        let Some(mut lock) = self.try_lock(&mirror.path)? else { return Ok(false) };
        // The mirror was used since it was listed, so an operation may be reading its files.
        if used(&mirror.path) != mirror.used {
            return Ok(false);
        }
        let name = mirror.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = self.directory().join(format!("gone-{name}"));
        fs::rename(&mirror.path, &aside).map_err(disk(&mirror.path))?;
        lock.forget();
        drop(lock);
        fs::remove_dir_all(&aside).map_err(disk(&aside))?;
        Ok(true)
    }

    /// Marks the mirror as used now. Only a hint for the collector, so failures are ignored.
    pub(crate) fn touch(&self, mirror: &Path) {
        let marked = File::options().create(true).truncate(false).write(true).open(mirror.join(USED));
        let _ = marked.and_then(|file| file.set_modified(SystemTime::now()));
    }
}

/// Returns the time of the last use. For mirrors of an older version, which did not record it, this
/// is the time of creation.
fn used(path: &Path) -> SystemTime {
    let time = |path: PathBuf| fs::metadata(path).and_then(|found| found.modified());
    time(path.join(USED)).or_else(|_| time(path.join("url"))).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns the size on disk in bytes. Only the server writes in this directory.
fn measure(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += found.blocks() * 512;
        if found.is_dir() {
            bytes += measure(&entry.path())?;
        }
    }
    Ok(bytes)
}
