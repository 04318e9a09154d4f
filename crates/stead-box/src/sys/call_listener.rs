//! Seccomp user notification: the kernel asks a listener about selected calls of other processes,
//! which wait for the answer.
#![expect(unsafe_code, reason = "seccomp takes pointers to structures, by system call and by ioctl")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The kernel's end of a filter that asks about calls.
pub(crate) struct CallListener(OwnedFd);

/// A call that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitingCall {
    id: u64,
    /// The calling thread, in the pid namespace of the listener.
    pub(crate) thread: u32,
    pub(crate) arguments: [u64; 6],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The call returns this value and the kernel does nothing.
    Returns(i64),
    /// The kernel performs the call.
    Continue,
}

impl CallListener {
    /// Installs `program` for this process and all its future children, as
    /// [`super::seccomp::install`]. This process must not make a call that the program asks about,
    /// because nothing would answer it.
    pub(crate) fn install(program: &[libc::sock_filter]) -> io::Result<Self> {
        let length = u16::try_from(program.len()).map_err(io::Error::other)?;
        let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
        let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        // SAFETY: `program` names `length` instructions that outlive the call; the kernel copies
        // and checks them, and writes nothing.
        let result = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
        let number = i32::try_from(result).ok().filter(|number| *number >= 0);
        let number = number.ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel has just made this descriptor, so nothing else owns it. It closes on
        // exec.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(number) }))
    }

    /// Returns the next waiting call. Does not block if the descriptor was readable: a call that
    /// ended in between is an error.
    pub(crate) fn next(&self) -> io::Result<WaitingCall> {
        // SAFETY: the structure consists of integers, for which zero is valid. The kernel requires
        // zeros.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `seccomp_notif` to the pointer, which is valid for it.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) };
        done(result)?;
        Ok(WaitingCall { id: call.id, thread: call.pid, arguments: call.data.args })
    }

    /// Returns true if the call still waits. Only then a file of `/proc` that was opened for its
    /// thread is that thread's, and not of a later one with the same id.
    pub(crate) fn waits(&self, call: &WaitingCall) -> bool {
        let id = call.id;
        // SAFETY: the kernel reads one `u64` from the pointer.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    /// Answers a call. Fails if its thread was killed or interrupted.
    pub(crate) fn answer(&self, call: &WaitingCall, answer: Answer) -> io::Result<()> {
        // SAFETY: the structure consists of integers, for which zero is valid.
        let mut response: libc::seccomp_notif_resp = unsafe { std::mem::zeroed() };
        response.id = call.id;
        match answer {
            Answer::Returns(value) => response.val = value,
            Answer::Continue => response.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        }
        // SAFETY: the kernel reads one `seccomp_notif_resp` from the pointer, which is valid.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
        done(result)
    }
}

impl AsFd for CallListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the number of bytes that this kernel writes for `sched_getaffinity`.
pub(crate) fn affinity_bytes() -> io::Result<usize> {
    // One bit for each of the most processors that Linux supports.
    let mut mask = [0_u64; 128];
    // SAFETY: the kernel writes at most the given number of bytes to the array.
    let result = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
