//! How often the kernel has ended a process of this box for want of memory.

use std::os::fd::OwnedFd;

/// 0 where nobody counts.
pub(super) fn kills(events: Option<&OwnedFd>) -> u64 {
    let mut text = [0; 512];
    let Some(length) = events.and_then(|events| rustix::io::pread(events, &mut text, 0).ok()) else { return 0 };
    let text = String::from_utf8_lossy(&text[..length]);
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok()).unwrap_or(0)
}
