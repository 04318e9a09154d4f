//! Steps of the wall clock relative to the boot clock, so that setting the wall clock does not
//! change a session's age.
//!
//! Events carry wall-clock times. The wall clock can be stepped. The boot clock (`CLOCK_BOOTTIME`)
//! only advances, even while the machine sleeps. A [`ClockHistory`] maps a recorded wall-clock time
//! to the boot clock, across every step observed in this boot.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// A smaller difference between two observations is a kernel adjustment and not a step.
const STEP_MILLIS: i64 = 2_000;
/// Maximum number of recorded steps. Earlier times use the oldest recorded segment.
const MOST_SEGMENTS: usize = 64;

/// Milliseconds of the boot clock. Negative before the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootTime(i64);

impl BootTime {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    pub fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    pub fn plus_seconds(self, seconds: u64) -> Self {
        let added = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
        Self(self.0.saturating_add(added))
    }
}

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    pub wall: Timestamp,
    pub boot: BootTime,
}

impl Reading {
    fn offset(self) -> i64 {
        self.wall.millis() - self.boot.0
    }
}

/// Wall-clock times from `after` on are `offset` milliseconds ahead of the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Segment {
    after: Timestamp,
    offset: i64,
}

/// The steps of one boot, oldest first. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockHistory {
    boot_id: String,
    segments: Vec<Segment>,
    /// The largest offset ever observed.
    highest: i64,
}

impl ClockHistory {
    /// Starts a history without steps, in which the wall clock is correct.
    pub fn begin(boot_id: &str, now: Reading) -> Self {
        let segment = Segment { after: Timestamp::from_millis(0), offset: now.offset() };
        Self { boot_id: boot_id.to_owned(), segments: vec![segment], highest: now.offset() }
    }

    /// Returns true if this history is of the boot with this id.
    pub fn is_of_boot(&self, boot_id: &str) -> bool {
        self.boot_id == boot_id
    }

    /// Records both clocks. Returns the step of the wall clock in milliseconds, if there was one.
    pub fn observe(&mut self, now: Reading) -> Option<i64> {
        self.highest = self.highest.max(now.offset());
        let last = self.segments.last_mut()?;
        let step = now.offset() - last.offset;
        if step.abs() <= STEP_MILLIS {
            last.offset = now.offset();
            return None;
        }
        // No time of the old clock is later than its expected value now. Events between the step
        // and this observation have times shortly before `now.wall`.
        let expected = now.wall.millis() - step;
        let after = if step > 0 { expected + step / 2 } else { now.wall.millis() - STEP_MILLIS };
        self.segments.push(Segment { after: Timestamp::from_millis(after), offset: now.offset() });
        if self.segments.len() > MOST_SEGMENTS {
            self.segments.remove(0);
        }
        Some(step)
    }

    /// Treats the wall clock as correct from now on, and discards the recorded steps.
    pub fn correct(&mut self, now: Reading) {
        let highest = self.highest.max(now.offset());
        *self = Self { highest, ..Self::begin(&self.boot_id, now) };
    }

    /// Returns the boot-clock time of a recorded wall-clock time, never later than `now`.
    ///
    /// After the wall clock was set back, a time can belong to either side of the step. The later
    /// candidate that is not in the future is used, so that a session lives too long rather than
    /// too short.
    pub fn boot_time(&self, at: Timestamp, now: BootTime) -> BootTime {
        let by = |segment: &Segment| BootTime(at.millis().saturating_sub(segment.offset));
        let fits = |segment: &&Segment| segment.after <= at && by(segment) <= now;
        let oldest = self.segments.first();
        let found = self.segments.iter().rev().find(fits).or(oldest.filter(|first| at < first.after));
        found.map_or(now, |segment| by(segment).min(now))
    }

    /// The latest wall-clock time that any observed clock would show at `now`.
    pub fn latest_wall(&self, now: BootTime) -> Timestamp {
        Timestamp::from_millis(now.0.saturating_add(self.highest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    fn reading(wall: i64, boot: i64) -> Reading {
        Reading { wall: Timestamp::from_millis(wall), boot: BootTime(boot) }
    }

    fn mapped(history: &ClockHistory, wall: i64, now: i64) -> i64 {
        history.boot_time(Timestamp::from_millis(wall), BootTime(now)).0
    }

    #[test]
    fn a_step_forward_ages_nothing() {
        let start = 10 * DAY;
        let mut history = ClockHistory::begin("boot", reading(start, 1_000));
        assert_eq!(history.observe(reading(start + 5_000, 6_000)), None);
        assert_eq!(history.observe(reading(start + 6_000 + DAY, 7_000)), Some(DAY));
        assert_eq!(mapped(&history, start + 5_000, 8_000), 6_000, "a time before the step");
        assert_eq!(mapped(&history, start + 6_500 + DAY, 8_000), 7_500, "a time after it");
        assert_eq!(history.latest_wall(BootTime(8_000)).millis(), start + 7_000 + DAY);
        // This still holds after more time has passed than the size of the step.
        assert_eq!(mapped(&history, start + 6_500 + DAY, 8_000 + 2 * DAY), 7_500);
    }

    #[test]
    fn a_step_back_ages_nothing_and_hides_nothing() {
        let start = 10 * DAY;
        let mut history = ClockHistory::begin("boot", reading(start, 0));
        assert_eq!(history.observe(reading(start + 1_000 - DAY, 1_000)), Some(-DAY));
        assert_eq!(mapped(&history, start, 2_000), 0, "a time before the step");
        assert_eq!(mapped(&history, start + 1_500 - DAY, 2_000), 1_500, "a time after it");
        // Sessions that are due by the old clock are still found.
        assert_eq!(history.latest_wall(BootTime(2_000)).millis(), start + 2_000);
    }

    #[test]
    fn a_corrected_clock_holds_for_earlier_times_and_what_is_due_is_still_found() {
        let start = 10 * DAY;
        let mut history = ClockHistory::begin("boot", reading(start + DAY, 0));
        assert_eq!(history.observe(reading(start + 1_000, 1_000)), Some(-DAY));
        history.correct(reading(start + 1_000, 1_000));
        assert_eq!(mapped(&history, start - DAY, 2_000), -DAY);
        assert_eq!(history.latest_wall(BootTime(2_000)).millis(), start + DAY + 2_000);
    }

    #[test]
    fn a_clock_that_is_slewed_or_stands_still_is_not_stepped() {
        let mut history = ClockHistory::begin("boot", reading(DAY, 0));
        for second in 1..100 {
            assert_eq!(history.observe(reading(DAY, second * 1_000)), None);
        }
        assert_eq!(history.segments.len(), 1);
        assert_eq!(history.latest_wall(BootTime(99_000)).millis(), DAY + 99_000, "what is due is found");
    }

    #[test]
    fn a_history_of_many_steps_stays_short() {
        let mut history = ClockHistory::begin("boot", reading(0, 0));
        for step in 1..1_000 {
            assert_eq!(history.observe(reading(step * DAY, step)), Some(DAY - 1));
        }
        assert_eq!(history.segments.len(), MOST_SEGMENTS);
        assert!(mapped(&history, 1, 1_000) <= 1_000);
    }
}
