//! Connections to MCP servers between two calls: at most one for each session and server, and not too many in all.
//!
//! Who calls takes the connection and gives it back when the call is over, so nobody speaks over another; a second call at the same time has one of its own,
//! which is not kept. The invariant: what is kept is a live session's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stead_core::SessionId;

use super::{Line, Talk};
use crate::engine::Engine;

/// Kept at once; the one that was not used for longest makes room.
const MOST: usize = 64;
/// One that nobody has used for so long is closed.
const IDLE: Duration = Duration::from_secs(300);

#[derive(Default)]
pub(crate) struct Connections(Mutex<Vec<Kept>>);

struct Kept {
    line: Line,
    talk: Talk,
    used: Instant,
}

impl Connections {
    /// The line's connection, for as long as a call takes. Others to the same server, reached in another way, are closed.
    pub(super) fn take(&self, line: &Line) -> Option<Talk> {
        let same = |kept: &mut Kept| kept.line.session == line.session && kept.line.server == line.server;
        let found: Vec<Kept> = self.lock().extract_if(.., same).collect();
        let mut usable = found.into_iter().filter_map(|Kept { line: of, mut talk, .. }| {
            (of.declared == line.declared && talk.is_open()).then_some(talk)
        });
        usable.next()
    }

    /// Keeps a connection for the next call, if the session is still there.
    pub(super) fn keep(&self, engine: &Engine, line: &Line, talk: Option<Talk>) {
        let Some(talk) = talk else { return };
        let mut kept = self.lock();
        // Looked at under the lock: a session that ends takes its own away after this, or was seen to be gone.
        let live = engine.cell(line.session).is_some();
        let known = kept.iter().any(|other| other.line.session == line.session && other.line.server == line.server);
        if live && !known {
            kept.push(Kept { line: line.clone(), talk, used: Instant::now() });
        }
        let crowded = if kept.len() > MOST { kept.iter().enumerate().min_by_key(|(_, kept)| kept.used) } else { None };
        let crowded = crowded.map(|(oldest, _)| oldest).map(|oldest| kept.swap_remove(oldest));
        drop(kept);
        drop(crowded);
    }

    /// Closes a session's.
    pub(crate) fn end(&self, session: SessionId) {
        let ended: Vec<Kept> = self.lock().extract_if(.., |kept| kept.line.session == session).collect();
        drop(ended);
    }

    /// Closes those that nobody uses.
    pub(crate) fn sweep(&self) {
        let idle: Vec<Kept> = self.lock().extract_if(.., |kept| kept.used.elapsed() >= IDLE).collect();
        drop(idle);
    }

    pub(crate) fn end_all(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        // Whole entries only: a panic elsewhere cannot leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
