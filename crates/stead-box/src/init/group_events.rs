//! Reads the event counters of this box's control groups.

use std::os::fd::OwnedFd;

/// Number of OOM kills in the box; 0 without a memory control group.
pub(super) fn memory_kills(events: Option<&OwnedFd>) -> u64 {
    number(events, "oom_kill ")
}

/// Number of processes that the kernel refused because of the box's process limit; 0 if
/// `pids.events` is missing.
pub(super) fn refused_processes(events: Option<&OwnedFd>) -> u64 {
    number(events, "max ")
}

fn number(events: Option<&OwnedFd>, name: &str) -> u64 {
    let mut text = [0; 512];
    let Some(length) = events.and_then(|events| rustix::io::pread(events, &mut text, 0).ok()) else { return 0 };
    let text = String::from_utf8_lossy(&text[..length]);
    text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap_or(0)
}
