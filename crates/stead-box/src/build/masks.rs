//! What of `/proc` a box does not see, and what it only sees.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, statat};

use super::tree::{self, SHOWN};
use crate::error::Refused;
use crate::sys::mount_attr;

/// Covered, each because it tells of the host or reaches it.
pub const HIDDEN: &[&str] = &[
    "kcore",    // the kernel's memory
    "kallsyms", // where things are in it
    "kmsg",     // the kernel's log
    "keys",     // keyrings
    "key-users",
    "timer_list", // every timer of the host, with names
    "sched_debug",
    "latency_stats",
    "pressure",   // the host's load, and anyone may set triggers on it
    "interrupts", // a side channel on other boxes
    "kpagecount",
    "kpageflags",
    "kpagecgroup",
    "vmallocinfo",
    "slabinfo",
    "modules",
    "sysrq-trigger", // reboots the host
    "cmdline",       // the host's boot command, sometimes with secrets
    "config.gz",
    "acpi",
    "scsi",
    "asound",
    "driver",
    "mtd",
    "partitions", // the host's disks
    "diskstats",
    "swaps",
];
/// Seen but not written, whatever the permissions say.
const READ_ONLY: &[&str] = &["sys", "irq", "bus", "fs", "tty"];

/// Covers what is to be covered in the new `/proc` below `root`; directories by the `empty` one of the staged tree.
pub(super) fn apply(root: &OwnedFd, staging: &OwnedFd) -> Result<(), Refused> {
    for name in HIDDEN {
        let path = format!("proc/{name}");
        let Ok(found) = statat(root, &path, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let cover = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => tree::copy(staging, "empty", SHOWN)?,
            _ => tree::copy(root, "dev/null", mount_attr::NOSUID | mount_attr::NOEXEC)?,
        };
        tree::attach(&cover, root.as_fd(), &path)?;
    }
    for name in READ_ONLY {
        let path = format!("proc/{name}");
        if statat(root, &path, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            let same = tree::copy(root, &path, SHOWN | mount_attr::NOEXEC)?;
            tree::attach(&same, root.as_fd(), &path)?;
        }
    }
    Ok(())
}
