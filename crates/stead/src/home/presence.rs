//! Notices when the home of a running server is removed.
//!
//! SQLite keeps writing into unlinked files. A server whose home was removed would acknowledge
//! writes that can never be read again, so it stops.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use super::Home;
use crate::failure::Failure;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The home's directory, held open: a directory that was moved is still the home.
pub(crate) struct Presence {
    directory: File,
    path: PathBuf,
}

impl Home {
    pub(crate) fn presence(&self) -> Result<Presence, Failure> {
        let cannot = || Failure::new(format!("cannot open the home {}", self.path().display()));
        let directory = File::open(self.path()).map_err(|error| cannot().because(&error))?;
        Ok(Presence { directory, path: self.path().to_owned() })
    }
}

impl Presence {
    fn is_removed(&self) -> bool {
        self.directory.metadata().is_ok_and(|found| found.nlink() == 0)
    }

    /// Completes when the directory has been removed.
    pub(crate) async fn removed(&self) {
        while !self.is_removed() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        tracing::error!(home = %self.path.display(), "the home was removed; stopping");
    }

    /// Fails if the directory has been removed.
    pub(crate) fn confirm(&self) -> Result<(), Failure> {
        if !self.is_removed() {
            return Ok(());
        }
        let removed = Failure::new(format!("the home {} was removed while the server ran", self.path.display()));
        Err(removed.hint("restore it from a backup, or start on another home with STEAD_HOME"))
    }
}
