//! Fair scheduling of event streams: the streams of one session take turns.
//!
//! A stream with pending output never waits, and the runtime lets a task send many events before it
//! polls another task. The streams of one session could keep all worker threads busy. Therefore
//! only one stream of a session encodes an event at a time, and it yields to other tasks after each
//! time slice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use stead_core::SessionId;

/// Length of a time slice, after which a session's streams yield to other tasks. Encoding an event
/// takes a few microseconds, and a yield after every event would cost as much.
const SLICE: Duration = Duration::from_micros(500);

/// Time that a session's streams have used of the current slice. The stream that encodes holds the
/// lock.
type Spent = tokio::sync::Mutex<Duration>;

/// The time slices of all sessions that have open streams.
#[derive(Clone, Default)]
pub(crate) struct StreamTurns(Arc<Mutex<HashMap<SessionId, Weak<Spent>>>>);

/// A stream's handle on the time slice of its session.
#[derive(Clone)]
pub(crate) struct StreamTurn(Arc<Spent>);

impl StreamTurns {
    pub(crate) fn of(&self, session: SessionId) -> StreamTurn {
        // Each change inserts or removes a whole entry, so a panic elsewhere cannot leave one half
        // changed.
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(&session).and_then(Weak::upgrade) {
            return StreamTurn(turn);
        }
        let turn = Arc::<Spent>::default();
        turns.insert(session, Arc::downgrade(&turn));
        StreamTurn(turn)
    }
}

impl StreamTurn {
    /// Encodes one event once no other stream of the session encodes.
    pub(crate) async fn encode<T>(&self, encode: impl FnOnce() -> T) -> T {
        let mut spent = self.0.lock().await;
        let began = Instant::now();
        let encoded = encode();
        *spent += began.elapsed();
        if *spent >= SLICE {
            *spent = Duration::ZERO;
            // Keep the lock during the yield, so that the session's other streams wait for the
            // other tasks too.
            tokio::task::yield_now().await;
        }
        encoded
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    const STREAMS: usize = 60;
    const ROUNDS: usize = 20;

    /// Counts the events that a session's streams encode while another task runs 20 times.
    async fn encoded_beside_another(encode: impl AsyncFn() + Clone + 'static) -> usize {
        let count = Arc::new(AtomicUsize::new(0));
        let local = tokio::task::LocalSet::new();
        for _ in 0..STREAMS {
            let (count, encode) = (count.clone(), encode.clone());
            local.spawn_local(async move {
                loop {
                    encode().await;
                    count.fetch_add(1, Relaxed);
                }
            });
        }
        let other = async {
            for _ in 0..ROUNDS {
                tokio::task::yield_now().await;
            }
            count.load(Relaxed)
        };
        local.run_until(other).await
    }

    #[tokio::test(flavor = "current_thread")]
    async fn streams_of_one_session_leave_the_workers_to_others() {
        let turn = StreamTurns::default().of(SessionId::from_bits(1));
        let fair = encoded_beside_another(async move || turn.encode(|| std::thread::sleep(SLICE)).await).await;
        assert!(fair <= ROUNDS * 2, "{fair} events beside {ROUNDS} turns of another task");
        // Control: without the time slices, streams only yield after each event.
        let unfair = encoded_beside_another(async || tokio::task::yield_now().await).await;
        assert!(unfair > ROUNDS * 4, "{unfair}");
    }

    #[test]
    fn a_session_without_streams_is_forgotten() {
        let turns = StreamTurns::default();
        let [one, two] = [1, 2].map(SessionId::from_bits);
        let first = turns.of(one);
        assert!(Arc::ptr_eq(&first.0, &turns.of(one).0) && !Arc::ptr_eq(&first.0, &turns.of(two).0));
        drop(first);
        let _second = turns.of(two);
        assert_eq!(turns.0.lock().unwrap().len(), 1);
    }
}
