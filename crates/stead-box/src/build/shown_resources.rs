//! The processors and the memory that programs in a box see.
//!
//! Programs size their caches and thread pools by `/proc` and `/sys`, where the kernel shows the
//! resources of the host. A box with limits sees its limits instead: fixed texts, made at its start
//! and mounted over the kernel's files. `MemFree`, `MemAvailable` and the times in `/proc/stat` do
//! not change, because nothing outside of the box updates them.
//!
//! The CPU affinity stays that of the host. A mask of as many processors as the limit would fix a
//! box to some processors while others are idle. Process 1 shortens the answer of
//! `sched_getaffinity` instead ([`crate::affinity_view`]).

use std::fmt::Write as _;
use std::fs;

use rustix::thread::sched_getaffinity;

use super::root::{Piece, What};
use crate::spec::Limits;

/// Names of the texts in the staging tree, and of the files below `/proc` that they cover.
pub(super) const FILES: &[&str] = &["meminfo", "cpuinfo", "stat"];
const PROCESSORS: &str = "sys/devices/system/cpu";
const CGROUP: &str = "sys/fs/cgroup";
const CPU_PERIOD_MICROS: u64 = 100_000;

/// Returns the number of processors to show for a CPU limit; `None` if the limit does not lower it.
/// It counts the affinity, because the standard library also counts the limit of this process's own
/// group.
pub fn processors(cpu_millis: Option<u64>) -> Option<u64> {
    let online = u64::from(sched_getaffinity(None).ok()?.count());
    cpu_millis.map(|millis| millis.div_ceil(1000).max(1)).filter(|shown| *shown < online)
}

/// Returns the text for a file below `/proc`; `None` if the limits do not change it.
pub(super) fn text(name: &str, limits: &Limits) -> Option<String> {
    let read = || fs::read_to_string(format!("/proc/{name}")).ok();
    match name {
        "meminfo" => meminfo(&read()?, limits.memory_bytes?),
        "cpuinfo" => Some(cpuinfo(&read()?, processors(limits.cpu_millis)?)),
        "stat" => Some(stat(&read()?, processors(limits.cpu_millis)?)),
        _ => None,
    }
}

/// Returns the paths that a container shows other texts at, and the texts. The control group that a
/// container sees is its own.
pub fn texts(limits: &Limits) -> Vec<(String, String)> {
    let of_proc = FILES.iter().filter_map(|name| Some((format!("/proc/{name}"), text(name, limits)?)));
    of_proc.chain(processor_lists(limits).into_iter().map(|(path, text)| (format!("/{path}"), text))).collect()
}

/// The lists of processors below `/sys`; empty if the limit does not change them.
fn processor_lists(limits: &Limits) -> Vec<(String, String)> {
    let Some(shown) = processors(limits.cpu_millis) else { return Vec::new() };
    let range = if shown == 1 { "0\n".to_owned() } else { format!("0-{}\n", shown - 1) };
    ["online", "possible", "present"].map(|name| (format!("{PROCESSORS}/{name}"), range.clone())).into()
}

/// Returns the entries of `/sys` that programs read. A box has no other `/sys`.
pub(super) fn pieces(limits: &Limits) -> Vec<Piece> {
    let mut texts = processor_lists(limits);
    if let Some(millis) = limits.cpu_millis {
        let quota = millis * CPU_PERIOD_MICROS / 1000;
        texts.push((format!("{CGROUP}/cpu.max"), format!("{quota} {CPU_PERIOD_MICROS}\n")));
    }
    if let Some(bytes) = limits.memory_bytes {
        texts.push((format!("{CGROUP}/memory.max"), format!("{bytes}\n")));
    }
    let mut directories: Vec<&str> = Vec::new();
    for (path, _) in &texts {
        let ends = path.match_indices('/').map(|(end, _)| &path[..end]);
        directories.extend(ends.filter(|directory| !directories.contains(directory)).collect::<Vec<_>>());
    }
    let directories = directories.iter().map(|path| Piece { path: (*path).into(), what: What::Empty });
    let mut pieces: Vec<Piece> = directories.collect();
    pieces.extend(texts.iter().map(|(path, text)| Piece { path: path.into(), what: What::Text(text.clone()) }));
    pieces
}

/// Keeps the names of the host's fields. A limit above the host's memory changes nothing.
fn meminfo(host: &str, limit: u64) -> Option<String> {
    let total = |line: &str| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok();
    let limit = limit / 1024;
    host.lines().find_map(total).filter(|total| limit < *total)?;
    let mut text = String::new();
    for line in host.lines() {
        let (name, value) = line.split_once(':')?;
        let shown = match name {
            "MemTotal" | "MemFree" | "MemAvailable" => limit,
            "Hugepagesize" => value.trim().strip_suffix(" kB").and_then(|size| size.parse().ok()).unwrap_or(0),
            _ => 0,
        };
        let unit = if value.ends_with(" kB") { " kB" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<15} {shown:>8}{unit}", format!("{name}:"));
    }
    Some(text)
}

/// Keeps the first processors.
fn cpuinfo(host: &str, shown: u64) -> String {
    let mut left = shown;
    let mut kept = host.trim_end().split("\n\n").filter(|block| {
        let is_processor = block.starts_with("processor");
        let kept = !is_processor || left > 0;
        left -= u64::from(is_processor && kept);
        kept
    });
    let mut text = String::new();
    kept.by_ref().for_each(|block| {
        let _ = write!(text, "{block}\n\n");
    });
    text
}

/// Keeps the lines of the first processors and the time of the boot, which `ps` needs. Counters of
/// the host's activity become 0.
fn stat(host: &str, shown: u64) -> String {
    let mut text = String::new();
    for line in host.lines() {
        let Some((name, _)) = line.split_once(' ') else { continue };
        let number = name.strip_prefix("cpu").map(str::parse::<u64>);
        let _ = match (name, number) {
            (_, Some(Ok(number))) if number >= shown => Ok(()),
            (_, Some(_)) => writeln!(text, "{name} 0 0 0 0 0 0 0 0 0 0"),
            ("btime", None) => writeln!(text, "{line}"),
            ("procs_running", None) => writeln!(text, "{name} 1"),
            (_, None) => writeln!(text, "{name} 0"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_show_the_limits() {
        let host = "MemTotal:       24684100 kB\nMemFree:          569756 kB\nCached: 16 kB\nHugePages_Total:       0\nHugepagesize:       2048 kB\n";
        let shown = meminfo(host, 64 << 20).unwrap();
        assert!(shown.starts_with("MemTotal:          65536 kB\nMemFree:           65536 kB\nCached:"), "{shown}");
        assert!(shown.contains("HugePages_Total:        0\n") && shown.contains(" 2048 kB"), "{shown}");
        assert_eq!(meminfo(host, 64 << 30), None, "more than the host has");
        let host = "processor\t: 0\nx\t: y\n\nprocessor\t: 1\nx\t: y\n\nHardware\t: z\n";
        assert_eq!(cpuinfo(host, 1), "processor\t: 0\nx\t: y\n\nHardware\t: z\n\n");
        let host = "cpu  9 9\ncpu0 4 4\ncpu1 5 5\nintr 7 7\nctxt 5\nbtime 1794914452\nprocs_running 17\n";
        let zeros = "0 0 0 0 0 0 0 0 0 0";
        assert_eq!(
            stat(host, 1),
            format!("cpu {zeros}\ncpu0 {zeros}\nintr 0\nctxt 0\nbtime 1794914452\nprocs_running 1\n")
        );
    }

    #[test]
    fn directories_come_before_their_files() {
        let limits = Limits { cpu_millis: Some(1), memory_bytes: Some(1 << 20), ..Limits::default() };
        let paths: Vec<String> = pieces(&limits).iter().map(|piece| piece.path.display().to_string()).collect();
        for (index, path) in paths.iter().enumerate() {
            let parent = path.rsplit_once('/').map(|(parent, _)| parent);
            assert!(parent.is_none_or(|parent| paths[..index].iter().any(|other| other == parent)), "{paths:?}");
        }
        assert!(paths.iter().any(|path| path == "sys/fs/cgroup/memory.max"), "{paths:?}");
    }
}
