//! The owner record: the parts of a box on the host. Each part is recorded before it is made.
//!
//! The invariant: after a crash at any point, the record and the box's directory name everything
//! that must be removed. The mounts and the loop device are in the box's own mount namespace, so
//! the kernel removes them with the last process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::spec::Ids;

pub(crate) const FILE: &str = "box.json";

/// Identifies a process across pid reuse and reboots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    pub pid: i32,
    /// Start time in clock ticks since boot, from `/proc/<pid>/stat`.
    pub start_time: u64,
    pub boot_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    pub id: String,
    pub instance: String,
    pub ids: Ids,
    /// Directories in the cgroup file systems.
    pub cgroups: Vec<PathBuf>,
    /// Process 1 of the box; `None` before it is started.
    pub init: Option<ProcessMark>,
}

impl OwnerRecord {
    /// Creates a record without any parts.
    pub(crate) fn new(id: &str, instance: &str, ids: Ids) -> Self {
        Self { id: id.to_owned(), instance: instance.to_owned(), ids, cgroups: Vec::new(), init: None }
    }

    /// Returns the name of the control groups.
    pub(crate) fn group_name(&self) -> String {
        format!("stead-{}-{}", self.instance, self.id)
    }

    /// Reads the record. Returns `None` if it is missing or unreadable, because then nothing was
    /// made that needs it.
    pub fn read(directory: &Path) -> io::Result<Option<Self>> {
        match fs::read(directory.join(FILE)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the record atomically. It is not synced: after a host crash the processes, mounts
    /// and groups are gone anyway.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        let new = directory.join("box.json.new");
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(new, directory.join(FILE))
    }
}

impl ProcessMark {
    pub(crate) fn of(pid: Pid) -> io::Result<Self> {
        let pid = pid.as_raw_nonzero().get();
        let start_time = start_time(pid)?.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        Ok(Self { pid, start_time, boot_id: boot_id()? })
    }

    /// Returns true if the marked process is still alive, or if that cannot be determined.
    pub fn is_alive(&self) -> bool {
        self.alive().map_or(true, |found| found.is_some())
    }

    /// Returns the process if it is still the marked one and has not ended.
    pub(crate) fn alive(&self) -> io::Result<Option<Pid>> {
        let same = self.pid > 0 && boot_id()? == self.boot_id && start_time(self.pid)? == Some(self.start_time);
        Ok(if same { Pid::from_raw(self.pid) } else { None })
    }
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Returns the start time; `None` if the process does not exist or is a zombie.
fn start_time(pid: i32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    // The name may contain anything, so count from the last parenthesis. The state is the first
    // field after it, the start time the 20th.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    if matches!(fields.next(), None | Some("Z" | "X")) {
        return Ok(None);
    }
    Ok(fields.nth(18).and_then(|field| field.parse().ok()))
}
