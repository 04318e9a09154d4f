//! Signals and file descriptors.
#![expect(unsafe_code, reason = "signal sets are C structs, and signalfd hands out a bare descriptor")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Blocks `SIGCHLD` and ignores `SIGPIPE`; the descriptor becomes readable when a child ends.
pub(crate) fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: `sigset_t` is a plain C struct; sigemptyset below gives it its value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a `sigset_t` to write to.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: `set` has been initialised, SIGCHLD is a signal.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: `set` is initialised; the old mask is not asked for.
    if unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: ignoring a signal installs no code to run.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // SAFETY: `set` is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above returned a new descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes this process the leader of a new session. It does not use `rustix`, which relies on the
/// returned id: gVisor returns 0.
pub(crate) fn new_session() -> io::Result<()> {
    // SAFETY: the call takes nothing and changes only which session this process is in.
    if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Discards pending signals, because the caller checks all children anyway.
pub(crate) fn drain(signals: &OwnedFd) {
    let mut buffer = [0u8; 128 * 8];
    while matches!(rustix::io::read(signals, &mut buffer), Ok(count) if count > 0) {}
}

/// Clears the signal mask and restores all default actions, before another program starts.
pub(crate) fn reset() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: SIG_DFL installs no code; numbers that are no signal, or cannot be changed, are
        // refused.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: `sigset_t` is a plain C struct; sigemptyset below gives it its value.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a `sigset_t` to write to.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: `set` is initialised; the old mask is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
}

/// Maximum descriptor number. gVisor reads a larger number as negative.
const LAST: i32 = i32::MAX;

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: called where the caller owns everything it still needs below `first`; the kernel only
    // closes descriptors.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, LAST, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Marks every descriptor from 3 on to be closed by the next exec.
pub(crate) fn close_all_on_exec() -> io::Result<()> {
    // SAFETY: the call only sets a flag on descriptors.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 3, LAST, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the descriptor `onto` refer to the file of `from`. Closes the file that `onto` referred
/// to, if no other descriptor does.
pub(crate) fn duplicate_onto(from: &impl AsRawFd, onto: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: both are open for the call; `onto` stays open and its owner does not change.
    let result = unsafe { libc::dup3(from.as_raw_fd(), onto.as_raw_fd(), libc::O_CLOEXEC) };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes descriptor `number` refer to the file of `from`, and keeps it open across the next exec.
/// For a child that is about to execute a program.
pub(crate) fn inherit_as(from: &impl AsRawFd, number: i32) -> io::Result<()> {
    // SAFETY: the calling process is a fork that executes a program next. It never returns to code
    // that owns a descriptor of this number.
    let result = unsafe { libc::dup2(from.as_raw_fd(), number) };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Kills every process that this one may signal, except process 1 of its pid namespace and itself.
///
/// No-op unless this process is process 1 of its namespace. Elsewhere it would kill processes of
/// the host.
pub(crate) fn kill_all() {
    if std::process::id() != 1 {
        return;
    }
    // SAFETY: sends a signal; no memory is passed. -1 is confined to the pid namespace whose first
    // process this is.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Closes a descriptor by its number, in a process that no longer uses its owner.
pub(crate) fn close(number: i32) {
    // SAFETY: the caller is a fork that never returns to the code that owns the number; closing a
    // closed one is only an error.
    unsafe { libc::close(number) };
}

/// Makes a write beyond the file size limit fail instead of killing the process.
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal installs no code to run.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
