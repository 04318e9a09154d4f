//! Computes the hashes of snapshots that were taken without one, and records them.
//!
//! Reading a large tree takes longer than keeping it, so the client gets its snapshot first. The
//! state lists what is still to be computed, so the work continues after a restart.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_core::session::HashAbsence;
use stead_core::{Outcome, SessionId, SnapshotId, Status};
use stead_fs::Stop;
use tokio::sync::Semaphore;

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

/// Maximum number of snapshots that are hashed at a time. Each reads a whole tree.
const MOST_HASHES: usize = 2;
/// Maximum time for one hash. An agent chooses how large its tree is.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Interval at which a running hash checks whether its session has ended.
const END_CHECK: Duration = Duration::from_secs(1);

/// The hashes that are being computed. A session has at most one at a time, so that it cannot take
/// all turns.
pub(crate) struct SnapshotHashes {
    turns: Arc<Semaphore>,
    sessions: Arc<Mutex<HashSet<SessionId>>>,
}

impl Default for SnapshotHashes {
    fn default() -> Self {
        Self { turns: Arc::new(Semaphore::new(MOST_HASHES)), sessions: Arc::default() }
    }
}

impl SnapshotHashes {
    /// Returns `None` if another task computes the hashes of this session.
    fn begin(&self, session: SessionId) -> Option<Running> {
        let is_first = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(session);
        is_first.then(|| Running { session, sessions: Arc::clone(&self.sessions) })
    }
}

/// Marks a session whose hashes a task computes, until the task ends.
struct Running {
    session: SessionId,
    sessions: Arc<Mutex<HashSet<SessionId>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.session);
    }
}

/// Requests the end of a reading when its task ends.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.request();
    }
}

/// Computes all hashes that a session lacks, one after the other in the background.
pub(crate) async fn begin(engine: &Engine, session: &OpenSession) {
    if pending(session).await.is_none() {
        return;
    }
    let (work, session) = (engine.clone(), session.clone());
    engine.spawn(async move {
        while let Some(running) = work.snapshot_hashes().begin(session.id()) {
            let settled = settle_all(&work, &session).await;
            drop(running);
            if let Err(error) = &settled {
                tracing::error!(session = %session.id(), error = error as &dyn std::error::Error, "the hash of a snapshot is not recorded");
            }
            // A snapshot may have been taken after the last look.
            if !matches!(settled, Ok(Settled::All)) || pending(&session).await.is_none() {
                break;
            }
        }
    });
}

async fn pending(session: &OpenSession) -> Option<SnapshotId> {
    let state = session.state().await;
    state.session.iter().flat_map(|session| session.pending_hashes()).next()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    All,
    /// The server stops, or the session has no workspace. The next start computes the rest.
    Interrupted,
}

async fn settle_all(engine: &Engine, session: &OpenSession) -> Result<Settled, OpError> {
    while let Some(snapshot) = pending(session).await {
        let Some(hash) = hash(engine, session, snapshot).await else { return Ok(Settled::Interrupted) };
        session.record_surely(Outcome::SnapshotHashed { snapshot, hash }).await?;
        if !is_live(session).await {
            return Ok(Settled::Interrupted);
        }
    }
    Ok(Settled::All)
}

/// Returns `None` if the server stops, the session ends or it has no workspace.
async fn hash(engine: &Engine, session: &OpenSession, snapshot: SnapshotId) -> Option<Result<String, HashAbsence>> {
    let stop = StopOnDrop(Stop::default());
    let hash = async {
        let _turn = engine.snapshot_hashes().turns.clone().acquire_owned().await.ok()?;
        let workspace = session.workspace()?;
        let hash = tokio::time::timeout(TIMEOUT, workspace.hash_snapshot(snapshot, stop.0.clone())).await;
        Some(hash.unwrap_or(Err(HashAbsence::Failed)))
    };
    let hash = tokio::select! {
        hash = hash => hash,
        () = engine.stopping().cancelled() => None,
        () = ended(session) => None,
    };
    // A reading that the end of the server interrupts says nothing about the files.
    hash.filter(|_| !engine.stopping().is_cancelled())
}

/// Waits until the session is not used any more.
async fn ended(session: &OpenSession) {
    while is_live(session).await {
        tokio::time::sleep(END_CHECK).await;
    }
}

async fn is_live(session: &OpenSession) -> bool {
    let state = session.state().await;
    state.session.as_ref().is_some_and(|session| matches!(session.status, Status::Active | Status::Paused))
}
