//! Rates: connections per second and bytes per second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// An amount that refills at a rate, up to a maximum.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: f64,
    most: f64,
    state: Mutex<(f64, Instant)>,
}

impl Bucket {
    /// A rate per second, up to the amount of one second.
    pub(crate) fn new(per_second: u64) -> Self {
        let per_second = per_second.max(1) as f64;
        Self { per_second, most: per_second, state: Mutex::new((per_second, Instant::now())) }
    }

    /// A rate per minute, up to the amount of one minute.
    pub(crate) fn per_minute(rate: u64) -> Self {
        let most = rate.max(1) as f64;
        Self { per_second: most / 60.0, most, state: Mutex::new((most, Instant::now())) }
    }

    /// Takes one if there is one.
    pub(crate) fn try_take(&self) -> bool {
        self.try_take_at(Instant::now())
    }

    fn try_take_at(&self, now: Instant) -> bool {
        let mut state = self.refilled(now);
        let enough = state.0 >= 1.0;
        if enough {
            state.0 -= 1.0;
        }
        enough
    }

    /// Takes an amount, and waits until the rate allows it.
    pub(crate) async fn take(&self, amount: usize) {
        let wait = self.take_and_wait(amount);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes an amount and returns the time that the caller must wait.
    pub(crate) fn take_and_wait(&self, amount: usize) -> Duration {
        self.take_at(amount, Instant::now())
    }

    /// Takes an amount and returns the time to wait.
    fn take_at(&self, amount: usize, now: Instant) -> Duration {
        let mut state = self.refilled(now);
        state.0 -= amount as f64;
        Duration::from_secs_f64((-state.0 / self.per_second).max(0.0))
    }

    fn refilled(&self, now: Instant) -> std::sync::MutexGuard<'_, (f64, Instant)> {
        // Two numbers that are valid in any combination.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let refill = now.saturating_duration_since(state.1).as_secs_f64() * self.per_second;
        *state = ((state.0 + refill).min(self.most), now);
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_holds() {
        let (bucket, start) = (Bucket::new(10), Instant::now());
        bucket.refilled(start).0 = 10.0;
        assert_eq!((0..20).filter(|_| bucket.try_take_at(start)).count(), 10);
        let later = start + Duration::from_millis(550);
        assert_eq!((0..20).filter(|_| bucket.try_take_at(later)).count(), 5);
        let bucket = Bucket::new(1_000);
        bucket.refilled(start).0 = 1_000.0;
        // 5,000 at 1,000 a second, of which the first 1,000 were there.
        let waits: Vec<u128> = (0..50).map(|_| bucket.take_at(100, start).as_millis()).collect();
        assert_eq!((waits[9], waits[10], waits[49]), (0, 100, 4_000));
    }
}
