//! Forks this process as a child of its parent (`CLONE_PARENT`).
//!
//! The only `unsafe` code outside `stead-box`. Only a fork inherits the initialised interpreter.
//! The new process is a child of the evaluator, not of the seed, so that the evaluator can wait for
//! it and kill it by its pid.

#![expect(unsafe_code, reason = "there is no safe call that copies a process")]

use std::io;

pub(crate) enum Forked {
    /// This is the process there was; the copy has this number.
    Original {
        copy: i32,
    },
    Copy,
}

/// Must be called while this process has one thread only, which it always has: nothing in it starts
/// another.
pub(crate) fn fork_beside() -> io::Result<Forked> {
    let (flags, none) = (libc::CLONE_PARENT | libc::SIGCHLD, 0_usize);
    // SAFETY: without CLONE_VM the copy has memory of its own, and with no stack given it goes on
    // on its copy of this one, so nothing is shared between the two. No lock can be held by a
    // thread that the copy lacks, for there is one thread. The other arguments are read only with
    // flags that are not given.
    let answer = unsafe { libc::syscall(libc::SYS_clone, flags as usize, none, none, none, none) };
    match answer {
        0 => Ok(Forked::Copy),
        copy => i32::try_from(copy)
            .ok()
            .filter(|copy| *copy > 0)
            .map(|copy| Forked::Original { copy })
            .ok_or_else(io::Error::last_os_error),
    }
}
