//! Maintenance of a mirror: removes the remains of killed processes, and repacks.
//!
//! Every fetch adds a pack, and git searches the packs one by one for an object. When a fetch
//! leaves more than [`Settings::most_packs`](crate::Settings::most_packs), the small ones are
//! combined in the background. The next fetch waits for that. Readers do not: a git that misses a
//! pack looks for the new one.

use std::fs;
use std::path::Path;

use crate::error::GitError;
use crate::mirror::{Mirrors, packs};

impl Mirrors {
    /// Repacks a mirror in the background if it has too many packs.
    pub(crate) fn tidy_soon(&self, mirror: &Path) {
        if packs(mirror).len() <= self.settings().most_packs {
            return;
        }
        let (mirrors, mirror) = (self.clone(), mirror.to_owned());
        tokio::spawn(async move {
            let before = packs(&mirror).len();
            match mirrors.tidy(&mirror).await {
                Ok(()) => tracing::info!(mirror = %mirror.display(), before, after = packs(&mirror).len(), "repacked"),
                Err(error) => {
                    tracing::warn!(mirror = %mirror.display(), error = &error as &dyn std::error::Error, "cannot repack")
                }
            }
        });
    }

    async fn tidy(&self, mirror: &Path) -> Result<(), GitError> {
        let _lock = self.lock(mirror).await?;
        // The mirror was collected or repacked meanwhile.
        if packs(mirror).len() <= self.settings().most_packs {
            return Ok(());
        }
        clear_left(mirror);
        // Packs that are much larger than all smaller ones together stay, so the cost depends on
        // the small packs only. Every fetched commit has its own ref, so nothing is lost.
        let git = self.git().on(mirror).args(["repack", "-d", "--geometric=2", "--no-write-bitmap-index", "-q"]);
        git.local("repack the mirror", self.settings().timeout).await.map(drop)
    }
}

/// Removes the remains of a killed git: locks would block every later git, and partial packs take
/// space. The caller holds the lock, so no other process writes there.
pub(crate) fn clear_left(mirror: &Path) {
    for name in ["shallow.lock", "packed-refs.lock", "HEAD.lock", "config.lock"] {
        let _ = fs::remove_file(mirror.join(name));
    }
    for entry in fs::read_dir(mirror.join("objects/pack")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if ["tmp_", ".tmp-"].iter().any(|start| name.starts_with(start)) || name.ends_with(".keep") {
            let _ = fs::remove_file(entry.path());
        }
    }
    let mut left = vec![mirror.join("refs")];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            } else if entry.file_name().to_string_lossy().ends_with(".lock") {
                // No branch has such a name: git refuses it.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
