//! Refuses writes to a store that this process no longer owns.
//!
//! Invariant: once a store is claimed ([`crate::Store::own`]), no write is acknowledged unless the
//! claim holds at that moment. PostgreSQL checks the owner's epoch inside every transaction
//! (`backend.rs`). SQLite cannot be taken over while the lock on its file is held
//! (`ownership.rs`). The check there is that the file is still the locked one.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::watch;

use crate::error::StoreError;

/// The right to write, as far as this process knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// The store is open but not claimed.
    Unclaimed,
    Held,
    /// The lock may be lost. Writes are refused until it is held again.
    InDoubt(String),
    /// Another server has the store, or its file is gone. This state is final.
    Lost(String),
}

#[derive(Debug)]
pub(crate) struct Fence {
    standing: watch::Sender<Standing>,
    /// The epoch of the claim, 0 before the first.
    epoch: AtomicI64,
    file: OnceLock<DatabaseFile>,
}

#[derive(Debug)]
struct DatabaseFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Fence {
    pub(crate) fn new() -> Self {
        Self { standing: watch::Sender::new(Standing::Unclaimed), epoch: AtomicI64::new(0), file: OnceLock::new() }
    }

    pub(crate) fn epoch(&self) -> Option<i64> {
        Some(self.epoch.load(Ordering::Acquire)).filter(|epoch| *epoch > 0)
    }

    /// Returns to the unclaimed state, in which every write is accepted.
    pub(crate) fn unclaim(&self) {
        self.epoch.store(0, Ordering::Release);
        self.standing.send_replace(Standing::Unclaimed);
    }

    /// Records a claim. Unlike [`Fence::regain`] this also works after an earlier claim was
    /// released.
    pub(crate) fn claim(&self, epoch: i64) {
        self.epoch.store(epoch, Ordering::Release);
        self.standing.send_replace(Standing::Held);
    }

    /// Records that the lock of the same claim is held again.
    pub(crate) fn regain(&self) {
        self.become_if_not_lost(Standing::Held);
    }

    /// Records the locked file. From here on the file at `path` must have the same device and
    /// inode.
    pub(crate) fn guard_file(&self, path: &Path, metadata: &std::fs::Metadata) {
        let (device, inode) = (metadata.dev(), metadata.ino());
        self.file.get_or_init(|| DatabaseFile { path: path.to_owned(), device, inode });
    }

    pub(crate) fn doubt(&self, reason: impl Into<String>) {
        self.become_if_not_lost(Standing::InDoubt(reason.into()));
    }

    pub(crate) fn lose(&self, reason: impl Into<String>) {
        self.become_if_not_lost(Standing::Lost(reason.into()));
    }

    /// Records that the claim was released cleanly.
    pub(crate) fn release(&self) {
        self.lose("this server stopped and released the database");
    }

    fn become_if_not_lost(&self, next: Standing) {
        self.standing.send_if_modified(|now| {
            let changes = !matches!(now, Standing::Lost(_)) && *now != next;
            if changes {
                *now = next;
            }
            changes
        });
    }

    pub(crate) fn standing(&self) -> Standing {
        if let Some(file) = self.file.get() {
            match std::fs::metadata(&file.path) {
                Ok(found) if (found.dev(), found.ino()) == (file.device, file.inode) => {}
                Ok(_) => self.lose(format!("the database file {} was replaced by another one", file.path.display())),
                Err(error) => {
                    self.lose(format!("the database file {} cannot be found any more: {error}", file.path.display()));
                }
            }
        }
        self.standing.borrow().clone()
    }

    /// Refuses a write unless the claim holds. A store without a claim accepts every write.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.standing() {
            Standing::Unclaimed | Standing::Held => Ok(()),
            Standing::InDoubt(reason) | Standing::Lost(reason) => Err(StoreError::NotOwner { reason }),
        }
    }

    /// Completes with the reason when the claim is lost for good.
    pub(crate) async fn lost(&self) -> String {
        let mut standing = self.standing.subscribe();
        loop {
            let now = standing.borrow_and_update().clone();
            if let Standing::Lost(reason) = now {
                return reason;
            }
            // The sender is in `self`, which this borrows, so it still exists.
            if standing.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
