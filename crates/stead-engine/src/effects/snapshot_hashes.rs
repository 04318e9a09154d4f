//! Computes the hashes of snapshots that were taken without one, and records them.
//!
//! Reading a large tree takes longer than keeping it, so the client gets its snapshot first. The
//! state lists what is still to be computed, so the work continues after a restart.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use stead_core::{Outcome, SnapshotId};
use stead_fs::Stop;
use tokio::sync::Semaphore;

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

/// Maximum number of snapshots that are hashed at a time. Each reads a whole tree.
const MOST_HASHES: usize = 2;

/// The hashes that are being computed.
pub(crate) struct SnapshotHashes {
    turns: Arc<Semaphore>,
    running: Mutex<HashSet<SnapshotId>>,
}

impl Default for SnapshotHashes {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(MOST_HASHES)), running: Mutex::default() }
    }
}

impl SnapshotHashes {
    /// Returns true if no other task computes this hash.
    fn begin(&self, snapshot: SnapshotId) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(snapshot)
    }

    fn end(&self, snapshot: SnapshotId) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&snapshot);
    }
}

/// Requests the end of a reading when its task ends.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.request();
    }
}

/// Computes all hashes that a session lacks, in the background.
pub(crate) async fn begin(engine: &Engine, session: &OpenSession) {
    let state = session.state().await;
    for snapshot in state.session.iter().flat_map(|session| session.pending_hashes()) {
        if !engine.snapshot_hashes().begin(snapshot) {
            continue;
        }
        let (work, session) = (engine.clone(), session.clone());
        engine.spawn(async move {
            let settled = settle(&work, &session, snapshot).await;
            work.snapshot_hashes().end(snapshot);
            if let Err(error) = settled {
                tracing::error!(session = %session.id(), %snapshot, error = &error as &dyn std::error::Error, "the hash of a snapshot is not recorded");
            }
        });
    }
}

/// Returns `Ok` without a record if the server stops or the session has no workspace. The next
/// start then computes the hash.
async fn settle(engine: &Engine, session: &OpenSession, snapshot: SnapshotId) -> Result<(), OpError> {
    let stop = StopOnDrop(Stop::default());
    let hash = async {
        let _turn = engine.snapshot_hashes().turns.clone().acquire_owned().await.ok()?;
        Some(session.workspace()?.hash_snapshot(snapshot, stop.0.clone()).await)
    };
    let hash = tokio::select! {
        hash = hash => hash,
        () = engine.stopping().cancelled() => None,
    };
    // A reading that the end of the server interrupts says nothing about the files.
    if let Some(hash) = hash.filter(|_| !engine.stopping().is_cancelled()) {
        session.record_surely(Outcome::SnapshotHashed { snapshot, hash }).await?;
    }
    Ok(())
}
