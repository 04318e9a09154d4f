//! Facts about this kernel for the providers, and a helper that asks a program for its version.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Finding;

pub(super) fn look() -> Vec<Finding> {
    vec![kernel(), user_namespaces(), overlayfs(), landlock(), cgroups()]
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn kernel() -> Finding {
    Finding::known("kernel", read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()))
}

fn user_namespaces() -> Finding {
    // The switches of Debian, of Ubuntu and of the kernel itself.
    let switched_off = [
        ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
        ("/proc/sys/user/max_user_namespaces", "0"),
    ];
    let reason = switched_off.iter().find(|(path, off)| read(path).as_deref() == Some(off));
    let detail = match reason {
        Some((path, off)) => format!(
            "forbidden for ordinary users ({} = {off})",
            path.trim_start_matches("/proc/sys/").replace('/', ".")
        ),
        None if Path::new("/proc/self/ns/user").exists() => "allowed".to_owned(),
        None => "not in this kernel".to_owned(),
    };
    Finding::known("user namespaces", detail)
}

fn overlayfs() -> Finding {
    let there = read("/proc/filesystems").is_some_and(|list| list.split_whitespace().any(|name| name == "overlay"));
    Finding::known("overlayfs", if there { "available" } else { "not loaded (modprobe overlay)" })
}

fn landlock() -> Finding {
    let detail = match read("/sys/kernel/security/lsm") {
        Some(list) if list.split(',').any(|name| name == "landlock") => "active",
        Some(_) => "not active (boot with lsm=landlock,…)",
        None => "unknown: securityfs is not mounted",
    };
    Finding::known("Landlock", detail)
}

fn cgroups() -> Finding {
    let detail = match read("/sys/fs/cgroup/cgroup.controllers") {
        Some(controllers) => format!("version 2 ({controllers})"),
        None if Path::new("/sys/fs/cgroup").exists() => "version 1".to_owned(),
        None => "not mounted".to_owned(),
    };
    Finding::known("cgroups", detail)
}

/// The first line that a program prints about its version, on either stream.
pub(super) fn version(name: &str, flag: &str) -> Option<String> {
    let output = Command::new(name).arg(flag).stdin(Stdio::null()).output().ok()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let text = String::from_utf8(text).ok().filter(|_| output.status.success())?;
    text.lines().next().map(str::to_owned)
}

pub(super) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
