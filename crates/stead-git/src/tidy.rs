//! A mirror kept in order: what a killed git left goes before the next one begins, and many packs become few.
//!
//! Every fetch adds a pack, and git looks for an object in one pack after the other. When a fetch leaves more of them than
//! [`Settings::most_packs`](crate::Settings::most_packs), the small ones are made one in the background. Whoever fetches next waits for that; who
//! reads does not: a git that finds a pack gone looks for the new one.

use std::fs;
use std::path::Path;

use crate::error::GitError;
use crate::mirror::{Mirrors, packs};

impl Mirrors {
    /// Sees to it, soon, that a mirror has few packs. Who cannot have the turn leaves it to whoever fetches next.
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
        let _turn = self.turn(mirror).await?;
        // Collected meanwhile, or done by another.
        if packs(mirror).len() <= self.settings().most_packs {
            return Ok(());
        }
        clear_left(mirror);
        // Packs that are much larger than all smaller ones together stay: what it costs is what the small ones are. Every commit that was
        // fetched has a name of its own, so nothing is lost.
        let git = self.git().on(mirror).args(["repack", "-d", "--geometric=2", "--no-write-bitmap-index", "-q"]);
        git.local("repack the mirror", self.settings().timeout).await.map(drop)
    }
}

/// Removes what a git left that was killed: locks would keep every later one from its work, and half packs are only large. For whoever has
/// the turn: then nobody else writes there.
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
                // No branch is called so: git refuses such names.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
