//! Idle connections to MCP servers: at most one for each session and server, and a limited number
//! in all.
//!
//! A call takes the connection and returns it at its end, so calls never share one. A concurrent
//! second call opens its own connection, which is not kept. Invariant: every kept connection
//! belongs to a live session.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stead_core::SessionId;

use super::{Connection, ConnectionKey};
use crate::engine::Engine;

/// Maximum number of kept connections. Above it, the least recently used one is closed.
const MOST: usize = 64;
/// Unused connections are closed after this time.
const IDLE: Duration = Duration::from_secs(300);

#[derive(Default)]
pub(crate) struct Connections(Mutex<Vec<Kept>>);

struct Kept {
    key: ConnectionKey,
    connection: Connection,
    used: Instant,
}

impl Connections {
    /// Removes and returns the connection for one call. Closes it instead if the declaration of the
    /// server has changed, or if the connection has ended.
    pub(super) fn take(&self, key: &ConnectionKey) -> Option<Connection> {
        let same = |kept: &mut Kept| kept.key.session == key.session && kept.key.server == key.server;
        let found: Vec<Kept> = self.lock().extract_if(.., same).collect();
        let mut usable = found.into_iter().filter_map(|Kept { key: of, mut connection, .. }| {
            (of.declared == key.declared && connection.is_open()).then_some(connection)
        });
        usable.next()
    }

    /// Keeps a connection for the next call, if the session is still live and has no other kept
    /// connection to the server. Closes it otherwise.
    pub(super) fn keep(&self, engine: &Engine, key: &ConnectionKey, connection: Option<Connection>) {
        let Some(connection) = connection else { return };
        let mut kept = self.lock();
        // Checked under the lock: a session that ends later removes its connections after this, and
        // one that ended earlier has no cell.
        let live = engine.cell(key.session).is_some();
        let known = kept.iter().any(|other| other.key.session == key.session && other.key.server == key.server);
        if live && !known {
            kept.push(Kept { key: key.clone(), connection, used: Instant::now() });
        }
        let crowded = if kept.len() > MOST { kept.iter().enumerate().min_by_key(|(_, kept)| kept.used) } else { None };
        let crowded = crowded.map(|(oldest, _)| oldest).map(|oldest| kept.swap_remove(oldest));
        drop(kept);
        drop(crowded);
    }

    /// Closes the connections of a session.
    pub(crate) fn end(&self, session: SessionId) {
        let ended: Vec<Kept> = self.lock().extract_if(.., |kept| kept.key.session == session).collect();
        drop(ended);
    }

    /// Closes idle connections.
    pub(crate) fn sweep(&self) {
        let idle: Vec<Kept> = self.lock().extract_if(.., |kept| kept.used.elapsed() >= IDLE).collect();
        drop(idle);
    }

    pub(crate) fn end_all(&self) {
        let all = std::mem::take(&mut *self.lock());
        drop(all);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        // Entries are added and removed as a whole, so a panic elsewhere cannot corrupt the list.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
