//! The memory of this host.

/// Returns the number of bytes of memory. `None` if the kernel does not report it.
pub(super) fn bytes() -> Option<u64> {
    total(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_in_bytes() {
        assert_eq!(total("MemTotal:       24684100 kB\nMemFree:          569756 kB\n"), Some(24_684_100 * 1024));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert!(bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
