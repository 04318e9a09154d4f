//! All processes of one exec, whatever they have done to hide: a new session, a second fork, a parent that ended.
//!
//! With a cgroup the kernel keeps the list and ends all of it at once. Without one a supervisor that adopts every orphan keeps the tree in
//! one piece, and it is ended from the leaves of `/proc` upward; who outruns that is ended together with everything in the box.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::{Errno, read, write};
use rustix::process::{Pid, Signal, kill_process};

use crate::sys::clone::{self, Side};

/// After so many rounds the box as a whole is ended.
const ROUNDS: u32 = 40;

/// Where a child of [`Tree::fork`] begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    There,
    Outside,
}

impl Member {
    /// Puts the calling process into the group, if it is not there.
    pub(super) fn join(self, tree: &Tree) -> Result<(), Errno> {
        match (self, tree) {
            (Self::Outside, Tree::Group { directory, .. }) => put(directory, "cgroup.procs", b"0"),
            _ => Ok(()),
        }
    }
}

pub(super) enum Tree {
    Group { directory: OwnedFd, name: String },
    Supervised { supervisor: Option<Pid>, rounds: u32 },
}

impl Tree {
    /// A new group below `parent`.
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

    /// Forks, the child in the group; where that is not to be had, the child is told to [`Member::join`].
    pub(super) fn fork(&self) -> io::Result<(Side, Member)> {
        let Self::Group { directory, .. } = self else { return Ok((clone::fork()?, Member::There)) };
        match clone::fork_into(directory) {
            // Linux before 5.7, or the filter of a container around us.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::E2BIG)) => {
                Ok((clone::fork()?, Member::Outside))
            }
            forked => Ok((forked?, Member::There)),
        }
    }

    /// Begins to end everything. Call again until [`Tree::count`] is 0.
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
                // Somebody may have stopped it; it must go on to see its children end, and to end.
                let _ = kill_process(*supervisor, Signal::CONT);
            }
            Self::Supervised { .. } => everything(),
        }
    }

    /// How many processes there are. A supervisor ends when nothing is left to supervise.
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Group { directory, .. } => {
                let text = get(directory, "cgroup.procs");
                text.map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count() as u64)
            }
            Self::Supervised { supervisor, .. } => u64::from(supervisor.is_some()),
        }
    }

    /// Takes the group away if it is empty; says whether it is gone.
    pub(super) fn remove(&self, parent: Option<&OwnedFd>) -> bool {
        match (self, parent) {
            (Self::Group { name, .. }, Some(parent)) => {
                !matches!(unlinkat(parent, name.as_str(), AtFlags::REMOVEDIR), Err(Errno::BUSY))
            }
            _ => true,
        }
    }
}

/// Ends every process of the box but this one. The kernel does it under one lock: nobody forks past it.
pub(super) fn everything() {
    crate::sys::signals::kill_all();
}

/// Everything whose parents lead to `supervisor`.
fn below(supervisor: Pid) -> Vec<Pid> {
    let parents = parents();
    descendants(&parents, vec![supervisor.as_raw_nonzero().get()]).skip(1).filter_map(Pid::from_raw).collect()
}

/// Everything that came to process 1 without being started by it, and what that has started.
pub(super) fn strays(known: &[Pid]) -> Vec<Pid> {
    let parents = parents();
    let unknown = |pid: i32| !known.iter().any(|known| known.as_raw_nonzero().get() == pid);
    let first = parents.iter().filter(|(pid, parent)| *parent == 1 && unknown(*pid)).map(|(pid, _)| *pid);
    descendants(&parents, first.collect()).filter_map(Pid::from_raw).collect()
}

/// Every process and its parent.
fn parents() -> Vec<(i32, i32)> {
    let mut parents: Vec<(i32, i32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // After the name, which may hold anything: state, then parent.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    parents
}

/// These, and everything whose parents lead to them.
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

/// The first pages of a kernel file: enough to tell none from some.
fn get(directory: &impl AsFd, file: &str) -> Result<Vec<u8>, Errno> {
    let file = openat(directory, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = vec![0; 16 << 10];
    let length = read(file, &mut text)?;
    text.truncate(length);
    Ok(text)
}
