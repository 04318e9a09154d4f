//! Collecting mirrors nobody works on, and telling what all of them take.
//!
//! A mirror is held by every live session of its repository, and is worth keeping for a while longer: the next session of it needs no
//! transfer. Checkouts have their objects of their own (as links to the same packs), so none of them minds when its mirror goes.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use stead_core::repository::RepositoryUrl;

use crate::error::{GitError, disk};
use crate::mirror::Mirrors;

/// Its time says when the mirror was last asked for something.
const USED: &str = "used";

/// What is kept although no live session is of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Longest time without use.
    pub unused: Duration,
    /// Most bytes that unheld mirrors take together; the least recently used go first.
    pub bytes: u64,
    /// One used within this time is left alone whatever the others take: somebody may be about to read it.
    pub grace: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { unused: Duration::from_secs(30 * 24 * 3600), bytes: 20 << 30, grace: Duration::from_secs(600) }
    }
}

/// One mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorUse {
    pub url: String,
    /// On the disk.
    pub bytes: u64,
    pub used: SystemTime,
    /// Whether a live session is of it.
    pub held: bool,
    place: PathBuf,
}

impl Mirrors {
    /// Every mirror, the least recently used first. `held` are the repositories of live sessions.
    pub fn usage(&self, held: &[RepositoryUrl]) -> Result<Vec<MirrorUse>, GitError> {
        let held: HashSet<PathBuf> = held.iter().map(|url| self.place(url)).collect();
        let mut mirrors = Vec::new();
        for entry in fs::read_dir(self.home()).map_err(disk(self.home()))?.flatten() {
            let place = entry.path();
            if place.extension().is_none_or(|extension| extension != "git") {
                continue;
            }
            // One that is being made, or just went, has no URL.
            let Ok(url) = fs::read_to_string(place.join("url")) else { continue };
            let bytes = measure(&place).unwrap_or(0);
            mirrors.push(MirrorUse { url, bytes, used: used(&place), held: held.contains(&place), place });
        }
        mirrors.sort_by(|a, b| (a.used, &a.place).cmp(&(b.used, &b.place)));
        Ok(mirrors)
    }

    /// Mirrors that no live session is of and that are not worth keeping.
    pub fn unneeded(&self, retention: Retention, held: &[RepositoryUrl]) -> Result<Vec<MirrorUse>, GitError> {
        let unheld: Vec<MirrorUse> = self.usage(held)?.into_iter().filter(|mirror| !mirror.held).collect();
        let mut kept_bytes: u64 = unheld.iter().map(|mirror| mirror.bytes).sum();
        // The least recently used first, as they are listed.
        let goes = |mirror: &MirrorUse| {
            let age = SystemTime::now().duration_since(mirror.used).unwrap_or_default();
            let goes = (age >= retention.unused || kept_bytes > retention.bytes) && age >= retention.grace;
            kept_bytes -= if goes { mirror.bytes } else { 0 };
            goes
        };
        Ok(unheld.into_iter().filter(goes).collect())
    }

    /// Removes these; gives which. One that is used, or was since it was looked at, stays.
    pub fn collect(&self, retention: Retention, held: &[RepositoryUrl]) -> Result<Vec<MirrorUse>, GitError> {
        let mut collected = Vec::new();
        for mirror in self.unneeded(retention, held)? {
            if self.remove(&mirror)? {
                collected.push(mirror);
            }
        }
        Ok(collected)
    }

    /// Takes its name away while nobody else can use it, and then removes it. Who comes next makes it anew.
    fn remove(&self, mirror: &MirrorUse) -> Result<bool, GitError> {
        let Some(mut turn) = self.free_turn(&mirror.place)? else { return Ok(false) };
        // Used meanwhile: its files may be being read.
        if used(&mirror.place) != mirror.used {
            return Ok(false);
        }
        let name = mirror.place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = self.home().join(format!("gone-{name}"));
        fs::rename(&mirror.place, &aside).map_err(disk(&mirror.place))?;
        turn.forget();
        drop(turn);
        fs::remove_dir_all(&aside).map_err(disk(&aside))?;
        Ok(true)
    }

    /// Says that the mirror is in use. Only a hint for the collector, so it may fail.
    pub(crate) fn touch(&self, mirror: &Path) {
        let marked = File::options().create(true).truncate(false).write(true).open(mirror.join(USED));
        let _ = marked.and_then(|file| file.set_modified(SystemTime::now()));
    }
}

/// One of before this was written down was used when it was made, at least.
fn used(place: &Path) -> SystemTime {
    let time = |path: PathBuf| fs::metadata(path).and_then(|found| found.modified());
    time(place.join(USED)).or_else(|_| time(place.join("url"))).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Bytes on the disk. Only the server writes there.
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
