//! Control groups: one directory per hierarchy, named after the box.
//!
//! The invariant: a limit is reported as held only if the kernel returns the same value after it
//! was set. The groups are siblings of the server's own group, not children. A service manager that
//! kills the server's group must not kill the boxes.

mod hierarchy;
mod remove;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, OFlags, Uid, chown, open};
use serde::{Deserialize, Serialize};

use crate::build::Reserve;
use crate::spec::Limits;
use hierarchy::{Controller, Hierarchy, Version};
pub(crate) use remove::remove;

/// Limits that the kernel enforces. A limit that was not requested is false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Held {
    pub cpu: bool,
    pub memory: bool,
    pub pids: bool,
    pub disk: bool,
    pub inodes: bool,
    /// State of the space that lets the volume start another generation even if the agent fills it.
    #[serde(default)]
    pub reserve: Reserve,
}

/// Returns the limits that boxes of this user can have on this host.
pub fn enforceable() -> Held {
    let hierarchies = hierarchy::writable().unwrap_or_default();
    let has = |controller| hierarchies.iter().any(|hierarchy| hierarchy.controllers.contains(&controller));
    let root = rustix::process::geteuid().is_root();
    // The user namespace can always limit processes. Limiting the disk needs images, and so root.
    Held {
        cpu: has(Controller::Cpu),
        memory: has(Controller::Memory),
        pids: true,
        disk: root,
        inodes: root,
        reserve: Reserve::Unneeded,
    }
}

/// Returns true if this user may make groups of version 2, which can be frozen.
pub(crate) fn has_unified() -> bool {
    hierarchy::writable().unwrap_or_default().iter().any(|hierarchy| hierarchy.version == Version::Two)
}

/// Files in which the kernel counts the effects of limits.
#[derive(Debug, Default)]
pub(crate) struct GroupEvents {
    /// Counts OOM kills.
    pub(crate) memory: Option<OwnedFd>,
    /// Counts forks that failed because of the process limit.
    pub(crate) processes: Option<OwnedFd>,
}

impl GroupEvents {
    pub(crate) fn files(&self) -> impl Iterator<Item = &OwnedFd> {
        self.memory.iter().chain(&self.processes)
    }
}

/// The control groups of one box.
pub(crate) struct Groups {
    groups: Vec<(Hierarchy, PathBuf)>,
}

const CPU_PERIOD_MICROS: u64 = 100_000;
/// Minimum quota: the kernel accepts nothing below a millisecond per period.
const CPU_LEAST_MICROS: u64 = 1_000;

/// cgroup v1 counts the buffers of TCP and UDP sockets separately from memory, and only with this
/// limit. On a kernel without it only the number of sockets is limited.
const SOCKET_LIMIT: &str = "memory.kmem.tcp.limit_in_bytes";
/// Socket buffers may use one eighth of the memory limit, in addition to it.
const SOCKET_PART: u64 = 8;
const LEAST_SOCKET_BYTES: u64 = 4 << 20;

impl Groups {
    /// Returns the groups to make, in every hierarchy that this user may write.
    pub(crate) fn plan(name: &str) -> io::Result<Self> {
        let groups = hierarchy::writable()?.into_iter().map(|hierarchy| {
            let path = hierarchy.parent.join(name);
            (hierarchy, path)
        });
        Ok(Self { groups: groups.collect() })
    }

    /// Returns the existing groups of a process.
    pub(crate) fn of_process(pid: i32) -> io::Result<Self> {
        Ok(Self { groups: hierarchy::of_process(pid)? })
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.groups.iter().map(|(_, path)| path.clone()).collect()
    }

    pub(crate) fn make(&self) -> io::Result<()> {
        self.groups.iter().try_for_each(|(_, path)| match fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        })
    }

    /// Moves this process, and so all its future children, into the cgroup v1 groups. The process
    /// has one thread.
    ///
    /// It moves only its own thread. Moving a process makes the whole kernel wait for all
    /// processors, which takes milliseconds on an idle host.
    pub(crate) fn join(&self) -> io::Result<()> {
        let old = self.groups.iter().filter(|(hierarchy, _)| hierarchy.version == Version::One);
        old.map(|(_, path)| path).try_for_each(|path| fs::write(path.join("tasks"), "0"))
    }

    /// Opens the cgroup v2 group, to start a process in it.
    pub(crate) fn unified(&self) -> io::Result<Option<OwnedFd>> {
        let Some(path) = self.unified_path() else { return Ok(None) };
        Ok(Some(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Moves this process into the cgroup v2 group, for kernels that cannot start a process in it.
    pub(crate) fn join_unified(&self) -> io::Result<()> {
        self.unified_path().map_or(Ok(()), |path| fs::write(path.join("cgroup.procs"), "0"))
    }

    fn unified_path(&self) -> Option<&Path> {
        let found = self.groups.iter().find(|(hierarchy, _)| hierarchy.version == Version::Two);
        found.map(|(_, path)| path.as_path())
    }

    /// Returns true if the box has a control group of the cpu controller.
    pub(crate) fn has_cpu(&self) -> bool {
        self.with(Controller::Cpu).is_some()
    }

    /// Sets the limits and reads them back.
    pub(crate) fn limit(&self, limits: &Limits) -> Held {
        Held {
            cpu: limits.cpu_millis.is_some_and(|millis| self.limit_cpu(millis)),
            memory: limits.memory_bytes.is_some_and(|bytes| self.limit_memory(bytes)),
            pids: limits.pids.is_some_and(|pids| {
                self.with(Controller::Pids).is_some_and(|(_, path)| set(path, "pids.max", &pids.to_string()))
            }),
            disk: false,
            inodes: false,
            reserve: Reserve::Unneeded,
        }
    }

    fn with(&self, controller: Controller) -> Option<(&Hierarchy, &Path)> {
        let found = self.groups.iter().find(|(hierarchy, _)| hierarchy.controllers.contains(&controller));
        found.map(|(hierarchy, path)| (hierarchy, path.as_path()))
    }

    fn limit_cpu(&self, millis: u64) -> bool {
        let quota = (millis * CPU_PERIOD_MICROS / 1_000).max(CPU_LEAST_MICROS).to_string();
        let Some((hierarchy, path)) = self.with(Controller::Cpu) else { return false };
        match hierarchy.version {
            Version::One => {
                set(path, "cpu.cfs_period_us", &CPU_PERIOD_MICROS.to_string()) && set(path, "cpu.cfs_quota_us", &quota)
            }
            Version::Two => set(path, "cpu.max", &format!("{quota} {CPU_PERIOD_MICROS}")),
        }
    }

    fn limit_memory(&self, bytes: u64) -> bool {
        // The kernel rounds down to pages. Round first, so that it returns the value that was set.
        let page = rustix::param::page_size() as u64;
        let rounded = bytes / page * page;
        let bytes = rounded.to_string();
        let Some((hierarchy, path)) = self.with(Controller::Memory) else { return false };
        match hierarchy.version {
            // Memory plus swap cannot be less than memory, so set it second.
            Version::One => {
                let sockets = (rounded / SOCKET_PART / page * page).max(LEAST_SOCKET_BYTES).to_string();
                let sockets_counted = path.join(SOCKET_LIMIT).exists();
                let swap_counted = path.join("memory.memsw.limit_in_bytes").exists();
                set(path, "memory.limit_in_bytes", &bytes)
                    && (if swap_counted { set(path, "memory.memsw.limit_in_bytes", &bytes) } else { no_swap() })
                    && (!sockets_counted || set(path, SOCKET_LIMIT, &sockets))
            }
            Version::Two => set(path, "memory.max", &bytes) && set(path, "memory.swap.max", "0"),
        }
    }

    /// Delegates the group in which init makes a group for each exec. The group belongs to the
    /// agent's user, and only init has it open.
    pub(crate) fn delegate(&self, agent: Option<u32>) -> io::Result<Option<OwnedFd>> {
        let Some(path) = self.unified_path() else { return Ok(None) };
        if !path.join("cgroup.kill").exists() {
            return Ok(None); // Linux before 5.14: init follows the processes itself.
        }
        if let Some(id) = agent {
            // Only these files. The server keeps control of the limits.
            for file in [path.to_owned(), path.join("cgroup.procs")] {
                chown(&file, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)))?;
            }
        }
        Ok(Some(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens the event files of the groups.
    pub(crate) fn events(&self) -> io::Result<GroupEvents> {
        let open = |path: PathBuf| open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let memory = self.with(Controller::Memory).map(|(hierarchy, path)| {
            open(path.join(match hierarchy.version {
                Version::One => "memory.oom_control",
                Version::Two => "memory.events",
            }))
        });
        // Linux before 4.8 has no such file.
        let processes = self.with(Controller::Pids).and_then(|(_, path)| open(path.join("pids.events")).ok());
        Ok(GroupEvents { memory: memory.transpose()?, processes })
    }
}

/// Writes a value. Returns true if the kernel then returns the same value.
fn set(group: &Path, file: &str, value: &str) -> bool {
    let file = group.join(file);
    fs::write(&file, value).is_ok() && fs::read_to_string(&file).is_ok_and(|now| now.trim() == value)
}

/// Returns true if the host has no swap, so that there is nothing to limit.
fn no_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() <= 1)
}
