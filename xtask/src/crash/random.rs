//! A seeded random number generator (splitmix64), to choose operations and times.

use std::time::{Duration, SystemTime};

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns another generator, for another thread.
    pub(super) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % (bound as u64).max(1)) as usize
    }

    pub(super) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub(super) fn millis(&mut self, from: usize, to: usize) -> Duration {
        Duration::from_millis((from + self.below(to - from + 1)) as u64)
    }
}

/// Returns a seed from the clock. The campaign prints it, so that a run can be repeated.
pub(super) fn seed_of_today() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Random::new(now.as_nanos() as u64).next() % 1_000_000_000
}
