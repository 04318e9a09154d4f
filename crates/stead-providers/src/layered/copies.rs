//! Copies of whole trees, which the removal of their workspace ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_box::protocol::{Answer, FileAsk};
use stead_box::{BoxError, Connection};
use stead_core::WorkspaceId;
use stead_fs::Stop;

/// The copies of all workspaces.
#[derive(Default)]
pub(crate) struct Copies(Mutex<BTreeMap<WorkspaceId, Arc<Copying>>>);

/// The copies of one workspace.
#[derive(Default)]
pub(super) struct Copying {
    stop: Stop,
    /// The connection over which the box is asked for a copy. A workspace makes one such copy at a time.
    connection: Mutex<Option<UnixStream>>,
}

impl Copies {
    pub(super) fn of(&self, workspace: WorkspaceId) -> Arc<Copying> {
        lock(&self.0).entry(workspace).or_default().clone()
    }

    /// For a workspace whose lineage is gone, so that no copy can begin.
    pub(super) fn forget(&self, workspace: WorkspaceId) {
        lock(&self.0).remove(&workspace);
    }
}

impl Copying {
    /// The flag for the files that a copy reads and writes.
    pub(super) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Ends the copy that is being made, and every later one.
    pub(super) fn end(&self) {
        self.stop.request();
        if let Some(connection) = lock(&self.connection).take() {
            // Fails if the box has hung up, which also ends the copy.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Asks the box for files, until [`Self::end`].
    pub(super) fn ask(
        &self,
        mut connection: Connection,
        ask: FileAsk,
        file: &File,
    ) -> Result<(Answer, Vec<u8>), BoxError> {
        *lock(&self.connection) = Some(connection.handle().map_err(BoxError::Lost)?);
        // Looked at after the connection is known, so that a removal misses neither.
        let answered = if self.stop.is_requested() {
            Err(BoxError::Lost(io::Error::other("the workspace is being removed")))
        } else {
            connection.files(ask, Some(file))
        };
        lock(&self.connection).take();
        answered
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one insert, remove or replacement, so a panic elsewhere leaves it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
