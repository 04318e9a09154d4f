//! Limits the concurrent operations of one session.
//!
//! A session has a fixed number of slots and a queue of fixed length. An operation that finds the
//! queue full is refused. One session can thus neither take all threads and connections of the
//! server nor fill its memory with waiting calls. The operation holds the slot, not the client: a
//! client that disconnects and asks again does not free a slot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stead_core::SessionId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::OpError;

/// Number of waiting operations per running one.
const QUEUE_FACTOR: usize = 4;

#[derive(Clone)]
pub(crate) struct Lanes {
    running: usize,
    by_session: Arc<Mutex<HashMap<SessionId, Lane>>>,
}

struct Lane {
    slots: Arc<Semaphore>,
    /// Number of operations that run or wait.
    entered: usize,
}

/// A slot of a session, held until it is dropped.
pub(crate) struct Slot {
    /// Dropped before `_entered`, so that a waiting operation starts first.
    _running: Option<OwnedSemaphorePermit>,
    _entered: Entered,
}

struct Entered {
    lanes: Lanes,
    session: SessionId,
}

impl Lanes {
    pub(crate) fn new(running: usize) -> Self {
        Self { running: running.max(1), by_session: Arc::default() }
    }

    /// Waits for a slot of the session. Refuses if too many operations already wait.
    pub(crate) async fn enter(&self, session: SessionId) -> Result<Slot, OpError> {
        let (slots, entered) = self.queue(session)?;
        // The semaphore is never closed, so a permit always arrives.
        Ok(Slot { _running: slots.acquire_owned().await.ok(), _entered: entered })
    }

    fn queue(&self, session: SessionId) -> Result<(Arc<Semaphore>, Entered), OpError> {
        let most = self.running * (1 + QUEUE_FACTOR);
        let mut lanes = self.lock();
        let lane =
            lanes.entry(session).or_insert_with(|| Lane { slots: Arc::new(Semaphore::new(self.running)), entered: 0 });
        if lane.entered >= most {
            return Err(OpError::Busy { running: self.running, waiting: most - self.running });
        }
        lane.entered += 1;
        Ok((lane.slots.clone(), Entered { lanes: self.clone(), session }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Lane>> {
        // Entries and counts change as a whole, so a panic elsewhere cannot corrupt the map.
        self.by_session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock();
        if let Some(lane) = lanes.get_mut(&self.session) {
            lane.entered -= 1;
            if lane.entered == 0 {
                lanes.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn one_session_waits_for_itself_and_not_for_others() {
        let lanes = Lanes::new(1);
        let (one, other) = (SessionId::from_bits(1), SessionId::from_bits(2));
        let held = lanes.enter(one).await.ok().unwrap();
        let waiting: Vec<_> = (0..QUEUE_FACTOR)
            .map(|_| {
                let lanes = lanes.clone();
                tokio::spawn(async move { lanes.enter(one).await.is_ok() })
            })
            .collect();
        while lanes.lock().get(&one).is_some_and(|lane| lane.entered < 1 + QUEUE_FACTOR) {
            tokio::task::yield_now().await;
        }
        assert!(matches!(lanes.enter(one).await, Err(OpError::Busy { running: 1, waiting: QUEUE_FACTOR })));
        let free = tokio::time::timeout(Duration::from_secs(5), lanes.enter(other)).await;
        assert!(free.is_ok_and(|entered| entered.is_ok()), "another session waits");
        drop(held);
        for waiting in waiting {
            assert!(waiting.await.unwrap());
        }
        assert!(lanes.lock().is_empty(), "nothing is kept of a session at rest");
    }
}
