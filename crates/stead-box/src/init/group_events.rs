//! What the kernel has counted of this box's control groups.

use std::os::fd::OwnedFd;

/// How often it has ended a process for want of memory; 0 where nobody counts.
pub(super) fn memory_kills(events: Option<&OwnedFd>) -> u64 {
    number(events, "oom_kill ")
}

/// How often it has refused a process because of the limit; 0 where nobody counts.
pub(super) fn refused_processes(events: Option<&OwnedFd>) -> u64 {
    number(events, "max ")
}

fn number(events: Option<&OwnedFd>, name: &str) -> u64 {
    let mut text = [0; 512];
    let Some(length) = events.and_then(|events| rustix::io::pread(events, &mut text, 0).ok()) else { return 0 };
    let text = String::from_utf8_lossy(&text[..length]);
    text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap_or(0)
}
