//! A cache of the states of ended sessions, so that a repeated read does not fold the whole
//! journal.
//!
//! Invariant: a state is returned only for the sequence number it was folded to. The caller has
//! just read that number from the store, so a journal that grew is folded again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use stead_core::{SessionId, State};

/// Enough for a few pages of a list.
const KEPT: usize = 256;

#[derive(Default)]
pub(crate) struct StateCache(Mutex<VecDeque<(SessionId, Arc<State>)>>);

impl StateCache {
    pub(crate) fn get(&self, session: SessionId, seq: u64) -> Option<Arc<State>> {
        let kept = self.lock();
        let (_, state) = kept.iter().find(|(id, state)| *id == session && state.seq == seq)?;
        Some(state.clone())
    }

    /// Adds a state. Replaces an older state of the same session, and evicts the oldest entry.
    pub(crate) fn keep(&self, session: SessionId, state: Arc<State>) {
        let mut kept = self.lock();
        kept.retain(|(id, _)| *id != session);
        kept.push_back((session, state));
        if kept.len() > KEPT {
            kept.pop_front();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<(SessionId, Arc<State>)>> {
        // Entries are added and removed as a whole, so a panic elsewhere cannot corrupt the cache.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_given_for_its_own_sequence_number_and_few_are_kept() {
        let cache = StateCache::default();
        let at = |seq| Arc::new(State { seq, ..State::default() });
        let ids: Vec<SessionId> = (0..=KEPT)
            .map(|number| format!("ses_{number:026}").parse().unwrap_or_else(|_| panic!("{number}")))
            .collect();
        for id in &ids {
            cache.keep(*id, at(7));
        }
        assert!(cache.get(ids[0], 7).is_none(), "the oldest made room");
        assert!(cache.get(ids[1], 7).is_some());
        assert!(cache.get(ids[1], 8).is_none());
        cache.keep(ids[1], at(8));
        assert!(cache.get(ids[1], 7).is_none());
        assert!(cache.get(ids[1], 8).is_some());
    }
}
