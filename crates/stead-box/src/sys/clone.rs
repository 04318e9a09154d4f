//! Creates processes, with and without new namespaces, and exits at once.
//!
//! The invariant: no function here runs in a process with a second thread, so a child never
//! inherits a lock that no thread will release.
#![expect(
    unsafe_code,
    reason = "clone3, fork, unshare and _exit have no safe form: they are sound only without other threads"
)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Side of a fork.
#[derive(Debug)]
pub(crate) enum Side {
    Parent(Pid),
    Child,
}

/// The initial namespaces of a box. The kernel makes the user namespace first, so it owns all
/// others. The cgroup namespace is not among them, because the kernel would root it in the caller's
/// groups and not in the child's.
pub(crate) const BOX_NAMESPACES: u64 =
    (libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS) as u64
        | NEWTIME;

/// The network namespace, if it is not made ahead.
pub(crate) const NEWNET: u64 = libc::CLONE_NEWNET as u64;

/// `CLONE_NEWTIME`: `libc` has it only for some targets.
pub(crate) const NEWTIME: u64 = 0x80;

/// Parent of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parenthood {
    Caller,
    /// The caller's parent also becomes the child's parent, so that the caller can exit at once.
    CallersParent,
}

/// `CLONE_INTO_CGROUP`: `libc` has it only for some targets.
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// Forks into new namespaces and, if given, directly into a cgroup v2 group. A process that moves
/// itself there makes the whole kernel wait.
pub(crate) fn into_namespaces(namespaces: u64, parent: Parenthood, group: Option<&OwnedFd>) -> io::Result<Side> {
    refuse_threads()?;
    // SAFETY: `clone_args` is a plain struct of integers, for which all zeroes is a value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = namespaces;
    match parent {
        // The kernel rejects an exit signal together with CLONE_PARENT. The child inherits the
        // caller's.
        Parenthood::CallersParent => args.flags |= libc::CLONE_PARENT as u64,
        Parenthood::Caller => args.exit_signal = libc::SIGCHLD as u64,
    }
    if let Some(group) = group {
        args.flags |= INTO_CGROUP;
        args.cgroup = u64::try_from(group.as_raw_fd()).map_err(io::Error::other)?;
    }
    // SAFETY: `args` is a valid `clone_args` of the length given and outlives the call, as does the
    // group's descriptor. Without CLONE_VM and without a stack the child continues on a copy of
    // this one, as after fork; there is no other thread whose locks it could inherit.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<libc::clone_args>()) };
    side(result)
}

/// Forks into a version 2 control group.
pub(crate) fn fork_into(group: &OwnedFd) -> io::Result<Side> {
    into_namespaces(0, Parenthood::Caller, Some(group))
}

pub(crate) fn fork() -> io::Result<Side> {
    refuse_threads()?;
    // SAFETY: single-threaded, so the child may do all that the parent may.
    let result = unsafe { libc::fork() };
    side(result.into())
}

fn side(result: libc::c_long) -> io::Result<Side> {
    match i32::try_from(result) {
        Ok(0) => Ok(Side::Child),
        Ok(pid) if pid > 0 => Pid::from_raw(pid).map(Side::Parent).ok_or_else(io::Error::last_os_error),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Moves this process into new namespaces of the given kinds.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    refuse_threads()?;
    // SAFETY: the only danger of unshare is one thread of several losing what the others share with
    // it; there is one thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Exits this process without running destructors or flushing inherited buffers.
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: _exit takes any integer and does not return.
    unsafe { libc::_exit(code) }
}

fn refuse_threads() -> io::Result<()> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads == 1 { Ok(()) } else { Err(io::Error::other(format!("{threads} threads where only one may be"))) }
}
