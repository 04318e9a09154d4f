//! Files of `/proc` that a box does not see or cannot write.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, statat};

use super::detached_mount::{self, SHOWN};
use super::shown_resources;
use crate::error::Refused;
use crate::sys::mount_attr;

/// Masked files. Each reveals information about the host or gives access to it.
pub const HIDDEN: &[&str] = &[
    "kcore",    // the kernel's memory
    "kallsyms", // addresses of kernel symbols
    "kmsg",     // the kernel's log
    "keys",     // keyrings
    "key-users",
    "timer_list", // every timer of the host, with names
    "sched_debug",
    "latency_stats",
    "pressure",   // the host's load; any user may set triggers
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
/// Read-only directories, independent of their permissions.
const READ_ONLY: &[&str] = &["sys", "irq", "bus", "fs", "tty"];

/// Masks files in the new `/proc` below `root`. Directories are masked with the `empty` directory
/// of the staging tree, and files about resources with the texts in it.
pub(super) fn apply(root: &OwnedFd, staging: &OwnedFd) -> Result<(), Refused> {
    for name in HIDDEN {
        let path = format!("proc/{name}");
        let Ok(found) = statat(root, &path, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let cover = match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => detached_mount::copy(staging, "empty", SHOWN)?,
            _ => detached_mount::copy(root, "dev/null", mount_attr::NOSUID | mount_attr::NOEXEC)?,
        };
        detached_mount::attach(&cover, root.as_fd(), &path)?;
    }
    for name in shown_resources::FILES {
        if statat(staging, *name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            let shown = detached_mount::copy(staging, name, SHOWN | mount_attr::NOEXEC)?;
            detached_mount::attach(&shown, root.as_fd(), format!("proc/{name}"))?;
        }
    }
    for name in READ_ONLY {
        let path = format!("proc/{name}");
        if statat(root, &path, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            let same = detached_mount::copy(root, &path, SHOWN | mount_attr::NOEXEC)?;
            detached_mount::attach(&same, root.as_fd(), &path)?;
        }
    }
    Ok(())
}
