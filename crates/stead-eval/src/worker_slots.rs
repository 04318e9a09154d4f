//! The order in which evaluations run.
//!
//! Code runs for up to five seconds, so an owner with many evaluations could occupy all workers.
//! One owner therefore gets at most half of them, and a free worker goes to the owner with the
//! fewest running evaluations.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Identifies whose evaluations are counted together.
pub(crate) type Owner = Arc<str>;

pub(crate) struct WorkerSlots {
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    next_ticket: u64,
    waiting: Vec<(u64, Option<Owner>)>,
    running: usize,
    running_by: HashMap<Owner, usize>,
}

impl State {
    fn running_of(&self, owner: Option<&Owner>) -> usize {
        owner.and_then(|owner| self.running_by.get(owner)).copied().unwrap_or(0)
    }

    /// The ticket that may run next, if any may.
    fn next(&self, most: usize) -> Option<u64> {
        if self.running >= most {
            return None;
        }
        let limit = most.div_ceil(2);
        let candidates = self.waiting.iter().map(|(ticket, owner)| (self.running_of(owner.as_ref()), *ticket));
        candidates.filter(|(running, _)| *running < limit).min().map(|(_, ticket)| ticket)
    }
}

impl WorkerSlots {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until an evaluation of this owner may run. Evaluations without an owner are bounded
    /// only by the number of workers.
    pub(crate) fn wait(&self, owner: Option<Owner>) -> WorkerSlot<'_> {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push((ticket, owner.clone()));
        while state.next(self.most) != Some(ticket) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.retain(|(waiting, _)| *waiting != ticket);
        state.running += 1;
        if let Some(owner) = &owner {
            *state.running_by.entry(owner.clone()).or_default() += 1;
        }
        drop(state);
        // Another worker may be free for the next in line.
        self.changed.notify_all();
        WorkerSlot { slots: self, owner }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code between the changes of one call can panic, so the state is always consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running evaluation. Dropping it makes room for the next one.
pub(crate) struct WorkerSlot<'a> {
    slots: &'a WorkerSlots,
    owner: Option<Owner>,
}

impl Drop for WorkerSlot<'_> {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.running -= 1;
        if let Some(owner) = &self.owner
            && let Some(running) = state.running_by.get_mut(owner)
        {
            *running -= 1;
            if *running == 0 {
                state.running_by.remove(owner);
            }
        }
        drop(state);
        self.slots.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(running: &[(&str, usize)], waiting: &[(u64, &str)]) -> State {
        let running_by: HashMap<Owner, usize> =
            running.iter().map(|(owner, count)| ((*owner).into(), *count)).collect();
        let waiting = waiting.iter().map(|(ticket, owner)| (*ticket, Some((*owner).into()))).collect();
        State { next_ticket: 9, waiting, running: running_by.values().sum(), running_by }
    }

    #[test]
    fn one_owner_gets_half_of_the_workers_and_the_others_come_first() {
        assert_eq!(state(&[("a", 1)], &[(1, "a"), (2, "a")]).next(4), Some(1));
        assert_eq!(state(&[("a", 2)], &[(1, "a")]).next(4), None, "half of the workers are busy with it");
        assert_eq!(state(&[("a", 2)], &[(1, "a"), (2, "b")]).next(4), Some(2));
        assert_eq!(state(&[("a", 2), ("b", 1)], &[(1, "b"), (2, "c")]).next(4), Some(2), "the fewest running");
        assert_eq!(state(&[("a", 2), ("b", 2)], &[(1, "c")]).next(4), None, "no worker is free");
        assert_eq!(state(&[], &[(1, "a")]).next(1), Some(1), "a single worker is shared by turns");
    }

    #[test]
    fn an_owner_that_wants_every_worker_leaves_room_for_another() {
        let slots = WorkerSlots::new(4);
        let (greedy, other): (Owner, Owner) = ("greedy".into(), "other".into());
        std::thread::scope(|scope| {
            let held = [(); 2].map(|()| slots.wait(Some(greedy.clone())));
            let more: Vec<_> = (0..8).map(|_| scope.spawn(|| drop(slots.wait(Some(greedy.clone()))))).collect();
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
            while slots.lock().waiting.len() < more.len() {
                assert!(std::time::Instant::now() < deadline, "not every evaluation began to wait");
                std::thread::yield_now();
            }
            // Gets its turn although eight others wait, and does not delay them afterwards.
            drop(slots.wait(Some(other.clone())));
            assert_eq!(slots.lock().waiting.len(), more.len());
            drop(held);
        });
        let state = slots.lock();
        assert!(state.waiting.is_empty() && state.running == 0 && state.running_by.is_empty());
    }
}
