//! A request to stop long file operations.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::FsError;

/// A flag that stops the operations of every [`DiskFs`](crate::DiskFs) that has it. Clones share
/// the flag.
///
/// A stopped operation fails with [`FsError::Stopped`] and leaves what it has done so far.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn check(&self) -> Result<(), FsError> {
        if self.is_requested() { Err(FsError::Stopped) } else { Ok(()) }
    }

    /// Like [`Self::check`], for a stream. The error is not `Interrupted`, because callers retry
    /// that one.
    pub(crate) fn check_io(&self) -> io::Result<()> {
        self.check().map_err(io::Error::other)
    }
}
