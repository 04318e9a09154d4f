//! The bounded table of open connections. Idle connections never block a new one.
//!
//! If the table is full, the server closes the oldest connection that never sent a valid token, or
//! else the authenticated one that has been idle longest. It never closes a connection with an
//! authenticated request in progress. If all connections are of that kind, it accepts a few more
//! for the routes that need no token, so that health checks always get a response.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::listener::connection::Clocks;

/// Number of connections beyond the limit, for open routes only.
const RESERVE: usize = 64;

#[derive(Clone)]
pub(crate) struct Connections {
    most: usize,
    next: Arc<AtomicU64>,
    open: Arc<Mutex<HashMap<u64, Entry>>>,
}

struct Entry {
    clocks: Arc<Clocks>,
    evicted: CancellationToken,
}

/// Routes that a connection may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Any,
    /// All regular entries of the table have requests in progress.
    OpenRoutesOnly,
}

/// A connection's entry in the table. Dropping it removes the entry.
pub(crate) struct Registration {
    connections: Connections,
    id: u64,
    pub(crate) standing: Standing,
    pub(crate) clocks: Arc<Clocks>,
    /// Cancelled when the connection has to close for another one.
    pub(crate) evicted: CancellationToken,
}

impl Connections {
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), next: Arc::default(), open: Arc::default() }
    }

    /// Returns an entry for a new connection, or `None` if even the reserve is in use.
    pub(crate) fn enter(&self) -> Option<Registration> {
        let mut open = self.lock();
        if open.len() >= self.most {
            evict(&mut open);
        }
        let standing = match open.len() {
            count if count < self.most => Standing::Any,
            count if count < self.most + RESERVE => Standing::OpenRoutesOnly,
            _ => return None,
        };
        let (id, clocks, evicted) =
            (self.next.fetch_add(1, Relaxed), Arc::new(Clocks::start()), CancellationToken::new());
        open.insert(id, Entry { clocks: clocks.clone(), evicted: evicted.clone() });
        drop(open);
        Some(Registration { connections: self.clone(), id, standing, clocks, evicted })
    }

    /// Closes one connection if possible, because the process has no file descriptor left.
    pub(crate) fn make_room(&self) {
        evict(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        // Each change inserts or removes a whole entry, so a panic elsewhere cannot leave one half
        // changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes one connection. Ids increase with time, so the smallest id is the oldest connection.
fn evict(open: &mut HashMap<u64, Entry>) {
    let unknown = open.iter().filter(|(_, entry)| !entry.clocks.is_authenticated()).map(|(id, _)| *id).min();
    let idle = || {
        let idle = open.iter().filter(|(_, entry)| !entry.clocks.is_answering());
        idle.max_by_key(|(_, entry)| entry.clocks.silence()).map(|(id, _)| *id)
    };
    if let Some(entry) = unknown.or_else(idle).and_then(|id| open.remove(&id)) {
        metrics::counter!("stead_connections_evicted_total").increment(1);
        entry.evicted.cancel();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authenticated(connections: &Connections) -> Registration {
        let registration = connections.enter().unwrap();
        registration.clocks.authenticated();
        registration
    }

    #[test]
    fn strangers_make_room_oldest_first() {
        let connections = Connections::new(3);
        let known = authenticated(&connections);
        let (oldest, younger) = (connections.enter().unwrap(), connections.enter().unwrap());
        let new = connections.enter().unwrap();
        assert_eq!(new.standing, Standing::Any);
        let evicted = [&known, &oldest, &younger, &new].map(|registration| registration.evicted.is_cancelled());
        assert_eq!(evicted, [false, true, false, false]);
    }

    #[test]
    fn requests_under_way_are_kept_and_the_reserve_is_for_open_routes() {
        let connections = Connections::new(2);
        let busy: Vec<Registration> = (0..2).map(|_| authenticated(&connections)).collect();
        let turns: Vec<_> = busy.iter().map(|registration| registration.clocks.clone().begin()).collect();
        let reserve: Vec<Registration> = (0..RESERVE).map(|_| connections.enter().unwrap()).collect();
        assert!(reserve.iter().all(|registration| registration.standing == Standing::OpenRoutesOnly));
        assert!(busy.iter().all(|registration| !registration.evicted.is_cancelled()));
        let new = connections.enter().unwrap();
        assert!(reserve[0].evicted.is_cancelled(), "the reserve makes room for itself");
        drop((new, reserve, turns));
        let new = connections.enter().unwrap();
        assert_eq!(new.standing, Standing::Any);
        assert_eq!(
            busy.iter().filter(|registration| registration.evicted.is_cancelled()).count(),
            1,
            "an idle one makes room"
        );
    }
}
