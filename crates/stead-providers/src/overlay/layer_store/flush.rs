//! Syncs a tree to disk while it is still being written.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Sync interval. A tree that is written in less time is synced once, at the end.
const FLUSHED_EVERY: Duration = Duration::from_millis(150);

/// Syncs the whole filesystem: syncing each file would wait for the disk once per file.
pub(super) fn flush(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(directory)?)?)
}

/// A thread that syncs at intervals, so that little is left to sync at the end. Dropping it stops
/// the thread.
#[derive(Debug)]
pub(super) struct Flusher {
    running: Option<(mpsc::Sender<()>, JoinHandle<io::Result<()>>)>,
}

impl Flusher {
    pub(super) fn start(directory: PathBuf) -> Self {
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(FLUSHED_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                flush(&directory)?;
            }
            Ok(())
        });
        Self { running: Some((stop, thread)) }
    }

    /// Stops the thread. Fails if a sync failed.
    pub(super) fn stop(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let Some((stop, thread)) = self.running.take() else { return Ok(()) };
        drop(stop);
        thread.join().unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // The tree is discarded, so a sync error does not matter.
        let _ = self.end();
    }
}
