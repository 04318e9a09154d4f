//! Control groups: one directory per hierarchy, with the box's name.
//!
//! The invariant: a limit is reported as held only if the kernel, asked after it was set, gives it back. The groups are made beside the
//! server's own, not below: a service manager that ends the server's group must not end the boxes.

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

/// Which limits hold. One that was not asked for does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Held {
    pub cpu: bool,
    pub memory: bool,
    pub pids: bool,
    pub disk: bool,
    pub inodes: bool,
    /// The space kept back so that the volume can begin another generation even if the agent fills
    /// it.
    #[serde(default)]
    pub reserve: Reserve,
}

/// What a box that is started here, by this user, could hold if it were asked to.
pub fn enforceable() -> Held {
    let hierarchies = hierarchy::writable().unwrap_or_default();
    let has = |controller| hierarchies.iter().any(|hierarchy| hierarchy.controllers.contains(&controller));
    let root = rustix::process::geteuid().is_root();
    // The number of processes can always be held, by the user namespace's own count; the disk by root's images.
    Held {
        cpu: has(Controller::Cpu),
        memory: has(Controller::Memory),
        pids: true,
        disk: root,
        inodes: root,
        reserve: Reserve::Unneeded,
    }
}

/// Files in which the kernel counts what it did because of a limit.
#[derive(Debug, Default)]
pub(crate) struct GroupEvents {
    /// OOM kills.
    pub(crate) memory: Option<OwnedFd>,
    /// Processes that the kernel refused because of the process limit.
    pub(crate) processes: Option<OwnedFd>,
}

impl GroupEvents {
    pub(crate) fn files(&self) -> impl Iterator<Item = &OwnedFd> {
        self.memory.iter().chain(&self.processes)
    }
}

/// The groups of one box.
pub(crate) struct Groups {
    groups: Vec<(Hierarchy, PathBuf)>,
}

const CPU_PERIOD_MICROS: u64 = 100_000;
/// The kernel takes no quota below a millisecond of each period.
const CPU_LEAST_MICROS: u64 = 1_000;

/// Version 1 counts the buffers of TCP and UDP sockets apart from memory, and not at all without this limit.
/// A kernel that is built without it has no other: then only the number of sockets is bounded.
const SOCKET_LIMIT: &str = "memory.kmem.tcp.limit_in_bytes";
/// They may have an eighth of the memory limit, on top of it.
const SOCKET_PART: u64 = 8;
const LEAST_SOCKET_BYTES: u64 = 4 << 20;

impl Groups {
    /// Where the groups will be, in every hierarchy this user may write.
    pub(crate) fn plan(name: &str) -> io::Result<Self> {
        let groups = hierarchy::writable()?.into_iter().map(|hierarchy| {
            let path = hierarchy.parent.join(name);
            (hierarchy, path)
        });
        Ok(Self { groups: groups.collect() })
    }

    /// The groups that a process is in already.
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

    /// Puts this process, and so everything it will start, into the groups of version 1. It has one thread.
    ///
    /// As a thread that moves itself and nobody else: moving a process makes the whole kernel wait for all its processors, milliseconds on an
    /// idle host.
    pub(crate) fn join(&self) -> io::Result<()> {
        let old = self.groups.iter().filter(|(hierarchy, _)| hierarchy.version == Version::One);
        old.map(|(_, path)| path).try_for_each(|path| fs::write(path.join("tasks"), "0"))
    }

    /// The group of version 2, for a process to be started in it.
    pub(crate) fn unified(&self) -> io::Result<Option<OwnedFd>> {
        let Some(path) = self.unified_path() else { return Ok(None) };
        Ok(Some(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Puts this process into the group of version 2, where the kernel cannot start one in it.
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
        // The kernel counts in pages and rounds down; so that what is read back is what was set, round first.
        let page = rustix::param::page_size() as u64;
        let rounded = bytes / page * page;
        let bytes = rounded.to_string();
        let Some((hierarchy, path)) = self.with(Controller::Memory) else { return false };
        match hierarchy.version {
            // Memory and swap together cannot be set below memory alone, so it comes second.
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

    /// The group in which init may make a group for each exec: it belongs to the agent's user, and only init has it open.
    pub(crate) fn delegate(&self, agent: Option<u32>) -> io::Result<Option<OwnedFd>> {
        let Some(path) = self.unified_path() else { return Ok(None) };
        if !path.join("cgroup.kill").exists() {
            return Ok(None); // Linux before 5.14: init follows the processes itself.
        }
        if let Some(id) = agent {
            // Only these: the limits stay the server's.
            for file in [path.to_owned(), path.join("cgroup.procs")] {
                chown(&file, Some(Uid::from_raw(id)), Some(Gid::from_raw(id)))?;
            }
        }
        Ok(Some(open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens what the kernel counts of the groups.
    pub(crate) fn events(&self) -> io::Result<GroupEvents> {
        let open = |path: PathBuf| open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let memory = self.with(Controller::Memory).map(|(hierarchy, path)| {
            open(path.join(match hierarchy.version {
                Version::One => "memory.oom_control",
                Version::Two => "memory.events",
            }))
        });
        // Linux before 4.8 does not count these.
        let processes = self.with(Controller::Pids).and_then(|(_, path)| open(path.join("pids.events")).ok());
        Ok(GroupEvents { memory: memory.transpose()?, processes })
    }
}

/// Writes a value and says whether the kernel gives the same back.
fn set(group: &Path, file: &str, value: &str) -> bool {
    let file = group.join(file);
    fs::write(&file, value).is_ok() && fs::read_to_string(&file).is_ok_and(|now| now.trim() == value)
}

/// Whether this host has no swap at all: then there is nothing to limit.
fn no_swap() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() <= 1)
}
