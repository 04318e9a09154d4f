//! Usage over time: the amounts that sessions reserved, multiplied by the time.

use crate::admission::Amounts;
use crate::parse::words;
use crate::time::{Day, Timestamp};

words!(
    /// The groups of a usage history.
    UsageGroup, "group", {
        Project = "project",
        /// The users of each project.
        User = "user",
        /// The agent types of each project.
        AgentType = "agent_type",
    }
);

/// Longest reservation that is counted. A longer one is the effect of a wrong clock, and every day
/// of it would be a row.
const MOST_DAYS: i64 = 1000;

/// Sums of reserved amounts over time. They are exact: nothing is rounded before it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageSums {
    pub sessions_created: u64,
    pub tool_calls: u64,
    pub session_millis: u64,
    pub box_millis: u64,
    /// Thousandths of a core, times milliseconds.
    pub cpu: u128,
    /// Bytes times milliseconds.
    pub memory: u128,
    /// Bytes times milliseconds.
    pub disk: u128,
}

impl UsageSums {
    /// Returns what a session with these amounts uses in a time.
    pub fn of(amounts: &Amounts, millis: u64) -> Self {
        let times = |amount: u64| u128::from(amount) * u128::from(millis);
        Self {
            sessions_created: 0,
            tool_calls: 0,
            session_millis: amounts.sessions.saturating_mul(millis),
            box_millis: amounts.boxes.saturating_mul(millis),
            cpu: times(amounts.cpu_millis),
            memory: times(amounts.memory_bytes),
            disk: times(amounts.disk_bytes),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.sessions_created = self.sessions_created.saturating_add(other.sessions_created);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.session_millis = self.session_millis.saturating_add(other.session_millis);
        self.box_millis = self.box_millis.saturating_add(other.box_millis);
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.disk = self.disk.saturating_add(other.disk);
    }
}

/// Returns the days of a period with the milliseconds that are in each. A period that ends before
/// it begins, because the clock was set back, has none.
pub fn by_day(since: Timestamp, until: Timestamp) -> Vec<(Day, u64)> {
    let last = Day::of(until);
    let mut since = since.max(last.plus(-MOST_DAYS).start());
    let mut days = Vec::new();
    while since < until {
        let day = Day::of(since);
        let end = day.plus(1).start().min(until);
        // The last day of the calendar has no next one.
        let end = if end > since { end } else { until };
        days.push((day, end.millis_since(since)));
        since = end;
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn shown(since: &str, until: &str) -> Vec<(String, u64)> {
        by_day(time(since), time(until)).into_iter().map(|(day, millis)| (day.to_string(), millis)).collect()
    }

    #[test]
    fn a_period_is_split_at_midnight() {
        let within = shown("2026-11-16T10:00:00Z", "2026-11-16T10:00:01.500Z");
        assert_eq!(within, [("2026-11-16".to_owned(), 1500)]);
        let over = shown("2026-11-16T23:59:59Z", "2026-11-18T00:00:00.001Z");
        let expected = [("2026-11-16", 1000), ("2026-11-17", 86_400_000), ("2026-11-18", 1)];
        assert_eq!(over, expected.map(|(day, millis)| (day.to_owned(), millis)));
        assert!(shown("2026-11-16T10:00:00Z", "2026-11-16T10:00:00Z").is_empty());
        assert!(shown("2026-11-16T10:00:00Z", "2026-11-16T09:00:00Z").is_empty(), "the clock was set back");
    }

    #[test]
    fn a_wrong_clock_does_not_make_a_row_per_day_since_1970() {
        let days = by_day(Timestamp::from_millis(0), time("2026-11-16T00:00:01Z"));
        assert_eq!(days.len(), 1001);
        assert_eq!(days.last().map(|(_, millis)| *millis), Some(1000));
        // The end of the calendar ends the loop.
        let end = Timestamp::from_millis(i64::MAX);
        assert!(by_day(Timestamp::from_millis(end.millis() - 10), end).len() <= 1);
    }

    #[test]
    fn products_are_exact() {
        let amounts = Amounts { sessions: 1, boxes: 1, cpu_millis: 64_000, memory_bytes: u64::MAX, disk_bytes: 0 };
        let used = UsageSums::of(&amounts, 86_400_000);
        assert_eq!((used.session_millis, used.box_millis, used.disk), (86_400_000, 86_400_000, 0));
        assert_eq!((used.cpu, used.memory), (5_529_600_000_000, u128::from(u64::MAX) * 86_400_000));
    }
}
