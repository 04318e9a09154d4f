//! Copies of whole trees. Removing the workspace cancels them.

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

/// The running copies of all workspaces.
#[derive(Default)]
pub(crate) struct Copies(Mutex<BTreeMap<WorkspaceId, Arc<Copying>>>);

/// The running copies of one workspace.
#[derive(Default)]
pub(super) struct Copying {
    stop: Stop,
    /// The connection on which the box sends a copy. A workspace makes one such copy at a time.
    connection: Mutex<Option<UnixStream>>,
    /// Held while a process reads the workspace's layers.
    reading: Mutex<()>,
}

impl Copies {
    pub(super) fn of(&self, workspace: WorkspaceId) -> Arc<Copying> {
        lock(&self.0).entry(workspace).or_default().clone()
    }

    /// Call it only after the workspace's lineage is removed, so that no copy can begin.
    pub(super) fn forget(&self, workspace: WorkspaceId) {
        lock(&self.0).remove(&workspace);
    }
}

impl Copying {
    /// The stop flag for filesystems that a copy reads or writes.
    pub(super) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Cancels the running copy or reading and every later one.
    pub(super) fn end(&self) {
        self.stop.request();
        if let Some(connection) = lock(&self.connection).take() {
            // Fails if the box has closed the connection, which also ends the copy.
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(lock(&self.reading));
    }

    /// Reads layers unless the workspace is being removed. `read` must return soon after a
    /// removal has set the flag: [`Self::end`] waits for it, so that no mount outlives the files.
    pub(super) fn unless_removed<T>(&self, read: impl FnOnce(&Stop) -> Result<T, BoxError>) -> Result<T, BoxError> {
        let _reading = lock(&self.reading);
        if self.stop.is_requested() {
            return Err(BoxError::Gone { reason: "the workspace is being removed" });
        }
        read(&self.stop)
    }

    /// Sends a file request to the box; [`Self::end`] cancels it.
    pub(super) fn ask(
        &self,
        mut connection: Connection,
        ask: FileAsk,
        file: &File,
    ) -> Result<(Answer, Vec<u8>), BoxError> {
        *lock(&self.connection) = Some(connection.handle().map_err(BoxError::Lost)?);
        // Check the flag after the connection is registered, so that a removal cannot miss both.
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
    // Each change is one insert, remove or replacement, so a panic cannot leave the value
    // inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
