//! All processes of one exec, including those with a new session, a double fork, or a dead parent.
//!
//! With a control group the kernel keeps the list and kills all of it at once. Without one, a
//! supervisor adopts every orphan, and init kills its descendants found in `/proc`. If they outrun
//! that, init kills everything in the box.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::{Errno, read, write};
use rustix::process::{Pid, Signal, kill_process};

use crate::sys::clone::{self, Side};

/// Number of attempts after which init kills everything in the box.
const ROUNDS: u32 = 40;

/// Position of a child of [`ProcessTree::fork`] when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    There,
    Outside,
}

impl Member {
    /// Moves the calling process into the group if it is outside.
    pub(super) fn join(self, tree: &ProcessTree) -> Result<(), Errno> {
        match (self, tree) {
            (Self::Outside, ProcessTree::Group { directory, .. }) => put(directory, "cgroup.procs", b"0"),
            _ => Ok(()),
        }
    }
}

pub(super) enum ProcessTree {
    Group { directory: OwnedFd, name: String },
    Supervised { supervisor: Option<Pid>, rounds: u32 },
}

impl ProcessTree {
    /// Makes a new group below `parent`.
    pub(super) fn group(parent: &OwnedFd, number: u64) -> Result<Self, Errno> {
        let name = format!("e{number}");
        mkdirat(parent, name.as_str(), Mode::from_raw_mode(0o755))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(parent, name.as_str(), flags, Mode::empty());
        let directory = directory.inspect_err(|_| {
            let _ = unlinkat(parent, name.as_str(), AtFlags::REMOVEDIR);
        })?;
        Ok(Self::Group { directory, name })
    }

    /// Forks a child into the group. If the kernel cannot do that, the child must call
    /// [`Member::join`].
    pub(super) fn fork(&self) -> io::Result<(Side, Member)> {
        let Self::Group { directory, .. } = self else { return Ok((clone::fork()?, Member::There)) };
        match clone::fork_into(directory) {
            // Linux before 5.7, or the seccomp filter of an outer container.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::E2BIG)) => {
                Ok((clone::fork()?, Member::Outside))
            }
            forked => Ok((forked?, Member::There)),
        }
    }

    /// Starts to kill all processes. Call it again until [`ProcessTree::count`] is 0.
    pub(super) fn kill(&mut self) {
        match self {
            Self::Group { directory, .. } => {
                let _ = put(directory, "cgroup.kill", b"1");
            }
            Self::Supervised { supervisor: Some(supervisor), rounds } if *rounds < ROUNDS => {
                *rounds += 1;
                for pid in below(*supervisor) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                // Continues a stopped supervisor, which must reap its children and exit.
                let _ = kill_process(*supervisor, Signal::CONT);
            }
            Self::Supervised { supervisor: Some(_), .. } => everything(),
            // A supervisor outlives every process of its exec.
            Self::Supervised { supervisor: None, .. } => {}
        }
    }

    /// Returns the number of processes. A supervisor exits when it has no child left.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Group { directory, .. } => {
                let text = get(directory, "cgroup.procs");
                text.map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count() as u64)
            }
            Self::Supervised { supervisor, .. } => u64::from(supervisor.is_some()),
        }
    }

    /// Returns the processes, without a supervisor. Those of a large group may be incomplete.
    pub(super) fn members(&self) -> Vec<Pid> {
        match self {
            Self::Group { directory, .. } => {
                let text = get(directory, "cgroup.procs").unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
            }
            Self::Supervised { supervisor, .. } => supervisor.map(below).unwrap_or_default(),
        }
    }

    /// Removes the group if it is empty. Returns true if it is gone.
    pub(super) fn remove(&self, parent: Option<&OwnedFd>) -> bool {
        match (self, parent) {
            (Self::Group { name, .. }, Some(parent)) => {
                !matches!(unlinkat(parent, name.as_str(), AtFlags::REMOVEDIR), Err(Errno::BUSY))
            }
            _ => true,
        }
    }
}

/// Kills every other process of the box. The kernel does this under one lock, so no process escapes
/// by forking.
pub(super) fn everything() {
    crate::sys::signals::kill_all();
}

/// Returns all descendants of `supervisor`.
fn below(supervisor: Pid) -> Vec<Pid> {
    let parents = parents();
    descendants(&parents, vec![supervisor.as_raw_nonzero().get()]).skip(1).filter_map(Pid::from_raw).collect()
}

/// Returns the orphans that process 1 did not start, with their descendants.
pub(super) fn strays(known: &[Pid]) -> Vec<Pid> {
    let parents = parents();
    let unknown = |pid: i32| !known.iter().any(|known| known.as_raw_nonzero().get() == pid);
    let first = parents.iter().filter(|(pid, parent)| *parent == 1 && unknown(*pid)).map(|(pid, _)| *pid);
    descendants(&parents, first.collect()).filter_map(Pid::from_raw).collect()
}

/// Returns all processes with their parents.
fn parents() -> Vec<(i32, i32)> {
    let mut parents: Vec<(i32, i32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The fields after the name, which may contain anything: state, then parent.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    parents
}

/// Returns these processes and all their descendants.
fn descendants(parents: &[(i32, i32)], mut found: Vec<i32>) -> impl Iterator<Item = i32> {
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter()
}

fn put(directory: &impl AsFd, file: &str, value: &[u8]) -> Result<(), Errno> {
    let file = openat(directory, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    write(file, value).map(drop)
}

/// Reads the first pages of a kernel file. A longer list is cut, so the count is a lower bound.
fn get(directory: &impl AsFd, file: &str) -> Result<Vec<u8>, Errno> {
    let file = openat(directory, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = vec![0; 16 << 10];
    let length = read(file, &mut text)?;
    text.truncate(length);
    Ok(text)
}
