//! Keeps the processes of an exec together without a control group.
//!
//! The supervisor is the subreaper of everything that the command starts. So an orphan becomes a
//! child of the supervisor and not of process 1. The supervisor reports two numbers to init, the
//! command's pid and its exit status, and exits when it has no child left. A command that kills its
//! supervisor gains nothing: init then kills everything in the box.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, set_child_subreaper, wait};

use super::exec::ExitStatus;
use crate::sys::clone::{self, Side};
use crate::sys::signals;

/// Supervises the process that `command` becomes. `command` does not return.
pub(super) fn run(report: OwnedFd, command: impl FnOnce() -> i32) -> ! {
    let mut report = File::from(report);
    match set_child_subreaper(Pid::from_raw(1)) {
        // gVisor has no subreapers. Orphans become children of init, which kills them itself
        // ([`super::serve`]).
        Ok(()) | Err(Errno::INVAL) => {}
        Err(_) => clone::leave(1),
    }
    let main = match clone::fork() {
        Err(_) => clone::leave(1),
        Ok(Side::Child) => clone::leave(command()),
        Ok(Side::Parent(pid)) => pid,
    };
    // Close all other files of init, so that the command's pipes close with the command.
    let _ = report.write_all(&main.as_raw_nonzero().get().to_le_bytes());
    keep_only(&report);
    while let Ok(reaped) = wait(WaitOptions::empty()) {
        if let Some((pid, status)) = reaped
            && pid == main
        {
            let _ = report.write_all(&ExitStatus::of(status).to_number().to_le_bytes());
        }
    }
    clone::leave(0)
}

fn keep_only(report: &File) {
    let kept = report.as_raw_fd();
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    // Collect the list before closing, because the listing uses a descriptor itself.
    let numbers: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2 && *number != kept) {
        signals::close(number);
    }
}
