//! Host resources that belong to the boxes of a home.

use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) processes: Vec<String>,
    pub(crate) mounts: Vec<String>,
    pub(crate) cgroups: Vec<PathBuf>,
    pub(crate) entries: Vec<PathBuf>,
    pub(crate) loop_devices: Vec<String>,
}

impl Census {
    /// Counts what names the home's directory or instance, because other tests and other programs
    /// run at the same time.
    pub(crate) fn take(home: &Path, instance: &str) -> Self {
        let home = home.to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        Self {
            processes: processes(instance),
            mounts: mounts.lines().filter(|line| line.contains(home)).map(str::to_owned).collect(),
            cgroups: cgroups(Path::new("/sys/fs/cgroup"), &format!("stead-{instance}-")),
            entries: ["boxes", "uids"].iter().flat_map(|name| list(&Path::new(home).join(name))).collect(),
            loop_devices: list(Path::new("/sys/block"))
                .iter()
                .filter_map(|device| fs::read_to_string(device.join("loop/backing_file")).ok())
                .filter(|file| file.contains(home))
                .collect(),
        }
    }
}

fn list(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Processes in a cgroup of the instance, or started with its mark in their environment.
fn processes(instance: &str) -> Vec<String> {
    let mut found = Vec::new();
    for process in list(Path::new("/proc")) {
        let read = |file: &str| fs::read(process.join(file)).unwrap_or_default();
        let mark = format!("stead-{instance}-");
        let group = String::from_utf8_lossy(&read("cgroup")).contains(&mark);
        let environment = String::from_utf8_lossy(&read("environ")).contains(&format!("STEAD_TEST_MARK={instance}"));
        // A zombie of another parent holds no resources; a zombie of this process counts, because
        // it must be reaped.
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, parent) = (fields.next(), fields.next());
        let ended = state == Some("Z") && parent != Some(&std::process::id().to_string());
        if (group || environment) && !ended {
            found.push(format!("{} {stat}", process.display()));
        }
    }
    found
}

fn cgroups(below: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in list(below).into_iter().filter(|path| path.is_dir() && !path.is_symlink()) {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)) {
            found.push(path);
        } else if path.components().count() < 8 {
            found.extend(cgroups(&path, prefix));
        }
    }
    found
}
