//! Limits the number of sockets of a box.
//!
//! Some socket buffers are kernel memory that no control group counts: pending replies in a netlink
//! socket, and on cgroup v1 a minimum for each TCP socket. No resource limit counts the sockets of
//! a whole box either. So init counts them. If there are too many, it kills the processes of the
//! box, as the kernel does when memory runs out.

use std::fs;
use std::time::{Duration, Instant};

/// Maximum number of netlink sockets. Each may hold about 210 kB of replies. Programs only open one
/// for a moment, to read addresses.
const MOST_NETLINK: u64 = 256;
/// Maximum number of sockets of all families.
const MOST_SOCKETS: u64 = 16_384;
/// An idle box has fewer sockets than this.
const FEW_SOCKETS: u64 = 8;
const LONG_INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(250);
/// Interval if more than half of the limit is in use.
const SHORT_INTERVAL: Duration = Duration::from_millis(20);

/// The number of sockets in this network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Counted {
    all: u64,
    netlink: u64,
}

pub(super) struct SocketWatch {
    next: Instant,
    kills: u64,
}

impl SocketWatch {
    pub(super) fn new() -> Self {
        Self { next: Instant::now(), kills: 0 }
    }

    /// Returns the time of the next count.
    pub(super) fn due(&self) -> Instant {
        self.next
    }

    /// Number of times that init killed the box's processes because of their sockets.
    pub(super) fn kills(&self) -> u64 {
        self.kills
    }

    /// Counts the sockets if a count is due, and kills every process of the box if there are too
    /// many. Returns true if a count was due.
    pub(super) fn look(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        let counted = Counted::now();
        if counted.all > MOST_SOCKETS || counted.netlink > MOST_NETLINK {
            self.kills += 1;
            super::process_tree::everything();
        }
        let many = counted.all > MOST_SOCKETS / 2 || counted.netlink > MOST_NETLINK / 2;
        self.next = now
            + match counted.all {
                _ if many => SHORT_INTERVAL,
                0..=FEW_SOCKETS => LONG_INTERVAL,
                _ => INTERVAL,
            };
        true
    }
}

impl Counted {
    /// Counts the sockets. Returns 0 if the kernel does not report them, as in gVisor, whose
    /// sockets use no memory of the host's kernel.
    fn now() -> Self {
        let all = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
        let families = fs::read_to_string("/proc/net/protocols").unwrap_or_default();
        Self::parse(&all, &families)
    }

    fn parse(all: &str, families: &str) -> Self {
        let all = all.lines().find_map(|line| line.strip_prefix("sockets: used ")?.trim().parse().ok());
        let netlink = families.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            // Fields: name, size of one socket, number of sockets.
            if words.next() == Some("NETLINK") { words.nth(1)?.parse().ok() } else { None }
        });
        Self { all: all.unwrap_or(0), netlink: netlink.unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_counted_as_the_kernel_tells_them() {
        let all = "sockets: used 116\nTCP: inuse 0 orphan 0 tw 0 alloc 7 mem 0\n";
        let families = "protocol  size sockets  memory press\nUNIX      1024      9      -1   NI\nNETLINK   1104    100      -1   NI\n";
        assert_eq!(Counted::parse(all, families), Counted { all: 116, netlink: 100 });
        assert_eq!(Counted::parse("", ""), Counted::default());
    }
}
