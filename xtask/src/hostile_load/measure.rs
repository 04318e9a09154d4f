//! Measures latencies, memory and disk, and compares them with the limits.
//!
//! The limit of [`MOST_SLOWDOWN`] is for the 99th percentile of all operations together. A single
//! kind of operation has the wider limit [`MOST_SLOWDOWN_OF_ONE`], because its percentile rests on
//! few samples: of 500 operations the 5 slowest decide, and one stall of the machine's disk delays
//! that many at once. The report prints the ratio of every kind, also of those below the minimum
//! number of samples.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

/// Limit: the maximum ratio of the 99th percentiles of all operations with and without the hostile
/// session.
const MOST_SLOWDOWN: f64 = 2.0;
/// Limit: the same ratio for a single kind of operation.
const MOST_SLOWDOWN_OF_ONE: f64 = 3.0;
/// Minimum number of samples in both halves for the check of a single kind of operation.
const ENOUGH: usize = 1000;
/// Growth of the server's memory, in MiB, that counts as noise: allocator arenas and bounded
/// caches.
const NOISE_MIB: f64 = 64.0;

/// Durations of operations and numbers of failures, by kind.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    by_kind: BTreeMap<&'static str, Vec<Duration>>,
    failures: BTreeMap<String, usize>,
}

impl Latencies {
    pub(super) fn add(&mut self, kind: &'static str, took: Duration) {
        self.by_kind.entry(kind).or_default().push(took);
    }

    pub(super) fn fail(&mut self, what: String) {
        *self.failures.entry(what).or_default() += 1;
    }

    pub(super) fn extend(&mut self, other: Self) {
        for (kind, mut times) in other.by_kind {
            self.by_kind.entry(kind).or_default().append(&mut times);
        }
        for (what, count) in other.failures {
            *self.failures.entry(what).or_default() += count;
        }
    }

    pub(super) fn count(&self) -> usize {
        self.by_kind.values().map(Vec::len).sum()
    }

    fn all(&self) -> Vec<Duration> {
        self.by_kind.values().flatten().copied().collect()
    }
}

/// Returns a percentile of the times.
fn percentile(times: &[Duration], hundredths: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * hundredths).div_ceil(100).max(1) - 1;
    sorted.get(rank).copied().unwrap_or_default()
}

/// Returns the ratio of the 99th percentiles with and without the hostile session, or `None` if
/// one of the halves has no sample.
fn slowdown(without: &[Duration], with: &[Duration]) -> Option<f64> {
    let measured = !without.is_empty() && !with.is_empty();
    measured.then(|| percentile(with, 99).as_secs_f64() / percentile(without, 99).as_secs_f64().max(1e-6))
}

/// Samples over time.
#[derive(Debug, Default, Clone)]
pub(super) struct Series(pub(super) Vec<(f64, f64)>);

impl Series {
    pub(super) fn most(&self) -> f64 {
        self.0.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }

    /// Fits a line to the samples after the first quarter and returns its growth from start to end.
    fn growth(&self) -> f64 {
        let settled = &self.0[self.0.len() / 4..];
        let count = settled.len() as f64;
        let (Some(first), Some(last)) = (settled.first(), settled.last()) else { return 0.0 };
        let mean = |pick: fn(&(f64, f64)) -> f64| settled.iter().map(pick).sum::<f64>() / count;
        let (time, value) = (mean(|sample| sample.0), mean(|sample| sample.1));
        let over = settled.iter().map(|(at, it)| (at - time) * (it - value)).sum::<f64>();
        let under = settled.iter().map(|(at, _)| (at - time).powi(2)).sum::<f64>();
        if under > 0.0 { over / under * (last.0 - first.0) } else { 0.0 }
    }
}

pub(super) struct Report {
    pub(super) without: Latencies,
    pub(super) with: Latencies,
    /// Resident memory of the server, in MiB.
    pub(super) memory: Series,
    /// Allocated bytes of the home, and of unnamed files that the server holds open.
    pub(super) disk: Series,
    pub(super) disk_limit: u64,
}

impl Report {
    pub(super) fn print(&self) {
        println!(
            "\n  {:<10} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>6}",
            "operation", "n", "n+", "p50 ms", "p50+ ms", "p99 ms", "p99+ ms", "ratio"
        );
        for kind in self.without.by_kind.keys().chain(["all"].iter()) {
            let (without, with) = self.of(kind);
            let millis = |times: &[Duration], percent| percentile(times, percent).as_secs_f64() * 1e3;
            println!(
                "  {kind:<10} {:>7} {:>7} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>6}",
                without.len(),
                with.len(),
                millis(&without, 50),
                millis(&with, 50),
                millis(&without, 99),
                millis(&with, 99),
                slowdown(&without, &with).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
            );
        }
        println!(
            "  memory: at most {:.0} MiB, trend {:+.1} MiB over the run",
            self.memory.most(),
            self.memory.growth()
        );
        println!("  disk: at most {:.0} MiB of {} MiB", self.disk.most() / f64::from(1 << 20), self.disk_limit >> 20);
        for (half, latencies) in [("without", &self.without), ("with", &self.with)] {
            for (what, count) in &latencies.failures {
                println!("  failed {half}: {count} × {what}");
            }
        }
    }

    pub(super) fn verdict(&self) -> Result<()> {
        let (without, with) = (self.without.all(), self.with.all());
        let Some(ratio) = slowdown(&without, &with) else { bail!("the run was too short: no operation was measured") };
        ensure!(ratio <= MOST_SLOWDOWN, "p99 of all operations is {ratio:.2} times that without the hostile session");
        for kind in self.without.by_kind.keys() {
            let (without, with) = self.of(kind);
            if without.len().min(with.len()) < ENOUGH {
                continue;
            }
            let ratio = slowdown(&without, &with).unwrap_or_default();
            ensure!(
                ratio <= MOST_SLOWDOWN_OF_ONE,
                "p99 of '{kind}' is {ratio:.2} times that without the hostile session"
            );
        }
        ensure!(self.with.failures.is_empty(), "operations of other sessions failed: {:?}", self.with.failures);
        ensure!(self.without.failures.is_empty(), "operations failed even alone: {:?}", self.without.failures);
        let growth = self.memory.growth();
        let allowed = NOISE_MIB.max(self.memory.most() * 0.15);
        ensure!(growth <= allowed, "the server's memory grows by {growth:.0} MiB over the run");
        let most = self.disk.most();
        ensure!(most <= self.disk_limit as f64, "{:.0} MiB of disk, above all quotas", most / f64::from(1 << 20));
        Ok(())
    }

    fn of(&self, kind: &str) -> (Vec<Duration>, Vec<Duration>) {
        let of = |latencies: &Latencies| latencies.by_kind.get(kind).cloned().unwrap_or_default();
        if kind == "all" { (self.without.all(), self.with.all()) } else { (of(&self.without), of(&self.with)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` reads and ten times as many writes. With the hostile session, 2 % of both take
    /// longer.
    fn report(count: usize, slow_read: u64, slow_write: u64) -> Report {
        let mut halves = [Latencies::default(), Latencies::default()];
        for (kind, count, slow) in [("read", count, slow_read), ("write", count * 10, slow_write)] {
            for number in 0..count {
                halves[0].add(kind, Duration::from_millis(10));
                halves[1].add(kind, Duration::from_millis(if number < count / 50 { slow } else { 10 }));
            }
        }
        let [without, with] = halves;
        let memory = Series((0..100).map(|second| (f64::from(second), 100.0)).collect());
        Report { without, with, memory, disk: Series(vec![(0.0, 100.0)]), disk_limit: 100 }
    }

    fn refusal(report: &Report) -> String {
        report.verdict().unwrap_err().to_string()
    }

    #[test]
    fn all_operations_together_may_take_twice_as_long() {
        assert!(report(1000, 20, 20).verdict().is_ok());
        assert!(refusal(&report(1000, 20, 21)).contains("all operations"));
        assert!(refusal(&report(0, 0, 0)).contains("too short"));
    }

    #[test]
    fn one_kind_of_operation_may_take_three_times_as_long_and_needs_enough_samples() {
        assert!(report(1000, 30, 10).verdict().is_ok());
        assert!(refusal(&report(1000, 31, 10)).contains("'read'"));
        assert!(report(999, 31, 10).verdict().is_ok());
    }

    #[test]
    fn growth_disk_and_failures_are_refused() {
        let mut grown = report(1000, 10, 10);
        grown.memory = Series((0..100).map(|second| (f64::from(second), 100.0 + 2.0 * f64::from(second))).collect());
        assert!(refusal(&grown).contains("memory grows"));
        let mut large = report(1000, 10, 10);
        large.disk_limit = 99;
        assert!(refusal(&large).contains("quotas"));
        let mut failed = report(1000, 10, 10);
        failed.with.fail("bash: 429".to_owned());
        assert!(refusal(&failed).contains("failed"));
    }

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 99), Duration::from_millis(198));
        assert_eq!(percentile(&times, 50), Duration::from_millis(100));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }
}
