//! The cgroup hierarchies in which this user may make groups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Cpu,
    Memory,
    Pids,
}

const CONTROLLERS: &[(&str, Controller)] =
    &[("cpu", Controller::Cpu), ("memory", Controller::Memory), ("pids", Controller::Pids)];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hierarchy {
    pub(super) version: Version,
    /// Controllers that a new group in `parent` has.
    pub(super) controllers: Vec<Controller>,
    /// Directory that contains the groups of the boxes.
    pub(super) parent: PathBuf,
}

/// Returns the usable hierarchies: version 1 with a controller for a limit, and version 2 always,
/// because it can kill a whole group.
pub(super) fn writable() -> io::Result<Vec<Hierarchy>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let found = parse(&mounts, &own, rustix::process::geteuid().is_root());
    Ok(found.into_iter().filter_map(with_controllers).filter(|found| may_write(&found.parent)).collect())
}

/// Returns the groups of a process that this user may write.
pub(super) fn of_process(pid: i32) -> io::Result<Vec<(Hierarchy, PathBuf)>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    // Joins the process's path to the root of each hierarchy.
    let mut found = Vec::new();
    for (mut hierarchy, options) in mounted(&mounts) {
        let Some(group) = own_group(&groups, hierarchy.version, options) else { continue };
        let path = hierarchy.parent.join(group.trim_start_matches('/'));
        if hierarchy.version == Version::Two {
            let enabled = fs::read_to_string(path.join("cgroup.controllers")).unwrap_or_default();
            hierarchy.controllers = named(enabled.split_ascii_whitespace());
        }
        if may_write(&path) {
            found.push((hierarchy, path));
        }
    }
    Ok(found)
}

fn may_write(directory: &Path) -> bool {
    access(directory, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Version 2 only shows at run time which controllers a child gets.
fn with_controllers(mut hierarchy: Hierarchy) -> Option<Hierarchy> {
    if hierarchy.version == Version::Two {
        let enabled = fs::read_to_string(hierarchy.parent.join("cgroup.subtree_control")).ok()?;
        hierarchy.controllers = named(enabled.split_ascii_whitespace());
    }
    Some(hierarchy)
}

fn named<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Controller> {
    names.filter_map(|name| CONTROLLERS.iter().find(|(known, _)| *known == name)).map(|(_, it)| *it).collect()
}

/// Root uses the root of each visible hierarchy. Another user uses its own group, which must be
/// delegated to it.
fn parse(mounts: &str, own: &str, root: bool) -> Vec<Hierarchy> {
    let below_own = |(mut hierarchy, options): (Hierarchy, &str)| {
        if !root {
            let group = own_group(own, hierarchy.version, options)?;
            hierarchy.parent.push(group.trim_start_matches('/'));
        }
        Some(hierarchy)
    };
    mounted(mounts).into_iter().filter_map(below_own).collect()
}

/// Returns each usable hierarchy once, with its mount options.
fn mounted(mounts: &str) -> Vec<(Hierarchy, &str)> {
    let mut found: Vec<(Hierarchy, &str)> = Vec::new();
    for line in mounts.lines() {
        // `id parent dev root mount options … - type source super-options`
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (Some(mount), mut right) = (left.split(' ').nth(4), right.split(' ')) else { continue };
        let (kind, options) = (right.next(), right.nth(1).unwrap_or_default());
        let (version, controllers) = match kind {
            Some("cgroup2") => (Version::Two, Vec::new()),
            Some("cgroup") => (Version::One, named(options.split(','))),
            _ => continue,
        };
        if version == Version::One && controllers.is_empty() {
            continue;
        }
        let again = |other: &Hierarchy| other.version == version && other.controllers == controllers;
        if !found.iter().any(|(other, _)| again(other)) {
            found.push((Hierarchy { version, controllers, parent: PathBuf::from(mount) }, options));
        }
    }
    found
}

/// Returns the path of the process's group, from lines like `4:memory:/a/b` and `0::/c`.
fn own_group<'a>(own: &'a str, version: Version, options: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        let matches = match version {
            Version::Two => number == "0",
            Version::One => {
                !names.is_empty() && names.split(',').all(|name| options.split(',').any(|option| option == name))
            }
        };
        matches.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
        30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
        34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn root_uses_the_top_and_others_their_own_group() {
        let own = "4:memory:/m\n3:cpu,cpuacct:/c\n0::/u\n";
        let parents = |root| {
            let found = parse(HYBRID, own, root);
            found.into_iter().map(|h| h.parent.display().to_string()).collect::<Vec<_>>()
        };
        let top = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/unified"];
        assert_eq!(parents(true), top);
        assert_eq!(parents(false), [format!("{}/m", top[0]), format!("{}/c", top[1]), format!("{}/u", top[2])]);
    }
}
