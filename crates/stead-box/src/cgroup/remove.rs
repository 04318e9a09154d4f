//! Kills all processes of a group and removes it.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Kills every process in the group and the groups below, waits until they are gone, and removes
/// the directories.
///
/// Returns the number of remaining processes if `deadline` passes first. A missing group counts as
/// removed.
pub(crate) fn remove(group: &Path, deadline: Instant) -> io::Result<usize> {
    let mut pause = Duration::from_micros(200);
    loop {
        if !group.exists() {
            return Ok(0);
        }
        kill(group)?;
        match remove_directories(group) {
            Ok(()) => return Ok(0),
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => return Err(error),
            Err(_) if Instant::now() > deadline => return Ok(members(group)?.len().max(1)),
            Err(_) => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn kill(group: &Path) -> io::Result<()> {
    match fs::write(group.join("cgroup.kill"), "1") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        result => return result,
    }
    // Version 1 has no such file, so kill the processes one by one. The next round kills processes
    // that escaped by forking.
    for pid in members(group)? {
        let _ = kill_process(pid, Signal::KILL);
    }
    Ok(())
}

fn members(group: &Path) -> io::Result<Vec<Pid>> {
    match fs::read_to_string(group.join("cgroup.procs")) {
        Ok(text) => {
            Ok(text.lines().filter_map(|line| Pid::from_raw(line.parse().ok().filter(|pid| *pid > 0)?)).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Removes the groups of the execs, one level down, and then the box's group.
fn remove_directories(group: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(group) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            gone(fs::remove_dir(entry.path()))?;
        }
    }
    gone(fs::remove_dir(group))
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
