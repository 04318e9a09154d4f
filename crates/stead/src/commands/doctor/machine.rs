//! Facts about the kernel and the programs here, for the providers that build on them.

use std::path::Path;
use std::process::{Command, Stdio};

use super::Finding;

pub(super) fn look() -> Vec<Finding> {
    let mut findings = vec![kernel(), user_namespaces(), overlayfs(), landlock(), cgroups()];
    findings.extend(["git", "podman", "psql"].map(program));
    findings
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn kernel() -> Finding {
    Finding::known("kernel", read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()))
}

fn user_namespaces() -> Finding {
    // Debian's own switch, Ubuntu's own switch, and everybody's.
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

fn program(name: &'static str) -> Finding {
    let output = Command::new(name).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let version = output.ok().filter(|output| output.status.success());
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    let line = version.as_deref().and_then(|text| text.lines().next()).unwrap_or("not installed");
    Finding::known(name, line)
}
