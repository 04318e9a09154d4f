//! Finds leftovers of a home on the host after its server has ended: processes, control groups,
//! mounts, loop devices and directories of boxes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::names;
use crate::server::home_processes::processes_of;

/// Directories of the control groups of this home's boxes.
pub(super) type Groups = BTreeSet<PathBuf>;

/// Maximum time for the kernel to release the objects of the last process.
const SETTLE: Duration = Duration::from_secs(20);

/// Returns all leftovers. A namespace ends with the last process and mount that hold it, so these
/// two represent it.
pub(super) fn left(home: &Path, groups: &Groups) -> Result<Vec<String>> {
    let start = Instant::now();
    loop {
        let found = look(home, groups)?;
        if found.is_empty() || start.elapsed() > SETTLE {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn look(home: &Path, groups: &Groups) -> Result<Vec<String>> {
    let mut found: Vec<String> = processes_of(home)?.into_iter().map(|pid| format!("process {pid}")).collect();
    found.extend(groups.iter().filter(|group| group.exists()).map(|group| format!("cgroup {}", group.display())));
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    found.extend(mounts.lines().filter(|line| names(line, home)).map(|line| format!("mount {line}")));
    for device in fs::read_dir("/sys/block")?.flatten() {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if names(&backing, home) {
            found.push(format!("loop device {} on {}", device.path().display(), backing.trim()));
        }
    }
    for directory in ["boxes", "uids"] {
        let entries = fs::read_dir(home.join(directory)).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| format!("directory {}", entry.path().display())));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_named() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(look(home.path(), &Groups::new()).unwrap(), Vec::<String>::new());
        fs::create_dir_all(home.path().join("boxes/ws_1")).unwrap();
        let groups = Groups::from([home.path().join("boxes")]);
        let found = look(home.path(), &groups).unwrap();
        assert!(found.iter().any(|line| line.starts_with("cgroup")) && found.iter().any(|line| line.ends_with("ws_1")));
    }
}
