//! Measures latencies, memory and disk, and compares them with the limits.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::MOST_SLOWDOWN;

/// Minimum number of samples in both halves for a separate check of one kind of operation.
const ENOUGH: usize = 500;
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
            let ratio = millis(&with, 99) / millis(&without, 99).max(1e-6);
            println!(
                "  {kind:<10} {:>7} {:>7} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {ratio:>6.2}",
                without.len(),
                with.len(),
                millis(&without, 50),
                millis(&with, 50),
                millis(&without, 99),
                millis(&with, 99)
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
        for kind in self.without.by_kind.keys().chain(["all"].iter()) {
            let (without, with) = self.of(kind);
            if *kind != "all" && without.len().min(with.len()) < ENOUGH {
                continue;
            }
            let (before, during) = (percentile(&without, 99), percentile(&with, 99));
            let ratio = during.as_secs_f64() / before.as_secs_f64().max(1e-6);
            ensure!(ratio <= MOST_SLOWDOWN, "p99 of '{kind}' is {ratio:.2} times that without: {during:?}, {before:?}");
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

    fn report(slow: u64, growth: f64, disk: f64) -> Report {
        let mut halves = [Latencies::default(), Latencies::default()];
        for number in 0..1000 {
            halves[0].add("read", Duration::from_millis(10));
            halves[1].add("read", Duration::from_millis(if number < 20 { slow } else { 10 }));
        }
        let [without, with] = halves;
        let memory = Series((0..100).map(|second| (f64::from(second), 100.0 + growth * f64::from(second))).collect());
        Report { without, with, memory, disk: Series(vec![(0.0, disk)]), disk_limit: 100 }
    }

    #[test]
    fn the_bar_can_fail_for_each_of_its_reasons() {
        assert!(report(20, 0.0, 100.0).verdict().is_ok());
        let refusal = |report: Report| report.verdict().unwrap_err().to_string();
        assert!(refusal(report(21, 0.0, 100.0)).contains("p99"));
        assert!(refusal(report(10, 2.0, 100.0)).contains("memory grows"));
        assert!(refusal(report(10, 0.0, 101.0)).contains("quotas"));
        let mut failed = report(10, 0.0, 0.0);
        failed.with.fail("bash: 429".to_owned());
        assert!(refusal(failed).contains("failed"));
    }

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let times: Vec<Duration> = (1..=200).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 99), Duration::from_millis(198));
        assert_eq!(percentile(&times, 50), Duration::from_millis(100));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }
}
