//! One server per home: an `flock` that the kernel releases when the process ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::{Duration, Instant};

use super::Home;
use crate::failure::Failure;

/// Retry period, because a client that tests the lock holds it for a moment itself.
const PATIENCE: Duration = Duration::from_millis(300);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Lock {
    /// Dropping it releases the lock.
    _file: File,
}

impl Lock {
    pub(super) fn take(home: &Home) -> Result<Self, Failure> {
        let path = home.path().join("lock");
        let cannot = || Failure::new(format!("cannot lock the home with {}", path.display()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(|error| {
            cannot().because(&error).hint("run as the owner of the home, or set STEAD_HOME to another directory")
        })?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(error)) => return Err(cannot().because(&error)),
                Err(TryLockError::WouldBlock) if start.elapsed() > PATIENCE => return Err(taken(home)),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// Returns true if a server holds the home. A missing or unreadable lock file counts as free.
    pub(super) fn is_held(home: &Home) -> bool {
        let Ok(file) = File::open(home.path().join("lock")) else { return false };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }
}

fn taken(home: &Home) -> Failure {
    let known = home.running().ok().flatten();
    let who = known.map_or("another Stead server".to_owned(), |server| {
        format!("a Stead server (process {}, {})", server.pid, server.url)
    });
    Failure::new(format!("{who} already runs on the home {}", home.path().display()))
        .hint("use that one, stop it first, or set STEAD_HOME to another directory")
}
