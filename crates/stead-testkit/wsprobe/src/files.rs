//! A07, A08, A11, A13: files that lead out of the box, devices, terminals, privileges on disk.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Finding;
use crate::raw::{call, in_child, make_node, type_into_terminal};

/// Files of another process that must not be readable or writable.
const OF_PROCESS_1: &[&str] = &["exe", "mem", "environ", "maps", "root", "cwd", "fd"];
/// Files in `/proc` that reveal information about the host.
const TELLTALE: &[&str] = &[
    "kcore",
    "kallsyms",
    "keys",
    "timer_list",
    "kmsg",
    "cmdline",
    "modules",
    "interrupts",
    "partitions",
    "sched_debug",
];
/// Harmless devices.
const HARMLESS: &[&str] = &["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"];
/// Maximum number of files to try.
const MOST: usize = 20_000;

pub(crate) fn probe() -> Vec<Finding> {
    let mut findings: Vec<Finding> = OF_PROCESS_1.iter().map(|name| of_process_1(name)).collect();
    findings.extend(TELLTALE.iter().map(|name| telltale(name)));
    findings.push(writable("A08.proc_writable", Path::new("/proc")));
    findings.push(writable("A08.sys_writable", Path::new("/sys")));
    findings.push(devices());
    for (name, kind, device) in
        [("char", libc::S_IFCHR, 0x103), ("block", libc::S_IFBLK, 0x700), ("whiteout", libc::S_IFCHR, 0)]
    {
        let error = in_child(|| make_node(c"wsprobe-node", kind | 0o600, device));
        let _ = fs::remove_file("wsprobe-node");
        findings.push(Finding::new(
            format!("A08.mknod_{name}"),
            format!("make a {name} device"),
            error == Some(0),
            format!("{error:?}"),
        ));
    }
    findings.push(terminal());
    findings.push(mounts());
    findings.push(system_writable());
    findings
}

fn open(path: &Path, how: Access) -> bool {
    let mut options = File::options();
    match how {
        Access::Read => options.read(true),
        Access::Write => options.write(true),
    };
    options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).is_ok()
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

fn of_process_1(name: &str) -> Finding {
    let path = Path::new("/proc/1").join(name);
    let allowed = match name {
        "root" | "cwd" | "fd" => fs::read_dir(&path).is_ok(),
        "exe" => open(&path, Access::Read) || open(&path, Access::Write),
        "mem" => open(&path, Access::Read) || open(&path, Access::Write),
        _ => fs::read(&path).is_ok_and(|content| !content.is_empty()),
    };
    Finding::new(format!("A07.process_1_{name}"), format!("open {}", path.display()), allowed, "")
}

fn telltale(name: &str) -> Finding {
    let path = Path::new("/proc").join(name);
    let mut byte = [0];
    let read =
        File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path).and_then(|mut file| file.read(&mut byte));
    let allowed = read.as_ref().is_ok_and(|count| *count > 0);
    Finding::new(format!("A08.proc_{name}"), format!("read {}", path.display()), allowed, format!("{read:?}"))
}

/// Opens every file for writing, but writes to none. Skips the directories of processes.
fn writable(id: &str, top: &Path) -> Finding {
    let mut left = vec![top.to_owned()];
    let (mut tried, mut opened) = (0, Vec::new());
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let process = directory == Path::new("/proc")
                && name.to_string_lossy().starts_with(|first: char| first.is_ascii_digit());
            let Ok(kind) = entry.file_type() else { continue };
            if process || kind.is_symlink() || tried >= MOST {
                continue;
            }
            if kind.is_dir() {
                left.push(path);
            } else {
                tried += 1;
                // A file that is masked with the null device can be opened, but that has no effect.
                let covered = fs::metadata(&path).is_ok_and(|found| found.file_type().is_char_device());
                if !covered && open(&path, Access::Write) {
                    opened.push(path);
                }
            }
        }
    }
    let shown: Vec<_> = opened.iter().take(3).collect();
    Finding::new(
        id,
        format!("open a file of {} for writing", top.display()),
        !opened.is_empty(),
        format!("{} of {tried}: {shown:?}", opened.len()),
    )
}

fn devices() -> Finding {
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let device = entry.file_type().is_ok_and(|kind| kind.is_char_device() || kind.is_block_device());
        // Opening a watchdog starts it, so this is the only kind of device that is not tried.
        let tried = device && !HARMLESS.contains(&name.as_str()) && !name.starts_with("watchdog");
        if tried && open(&entry.path(), Access::Read) {
            found.push(entry.path());
        }
    }
    found.sort();
    found.truncate(8);
    Finding::new("A08.devices", "open a device with power", !found.is_empty(), format!("{found:?}"))
}

/// Types into a controlling terminal of this process. If that works, a program can type into the
/// terminal of the user who started it.
fn terminal() -> Finding {
    let error = in_child(|| {
        use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
        use std::os::fd::AsRawFd;
        let typed = || -> rustix::io::Result<i32> {
            // Uses the raw call, because gVisor returns 0 although it has created the session.
            if call(libc::SYS_setsid, [0; 5]) != 0 {
                return Err(rustix::io::Errno::PERM);
            }
            let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
            unlockpt(&master)?;
            let slave = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
            rustix::process::ioctl_tiocsctty(&slave)?;
            let error = type_into_terminal(slave.as_raw_fd());
            // Closing the master would hang up this process before it can report.
            std::mem::forget(master);
            Ok(error)
        };
        typed().unwrap_or_else(rustix::io::Errno::raw_os_error)
    });
    Finding::new("A11.tiocsti", "type into a terminal", error == Some(0), format!("{error:?}"))
}

/// Writable mounts must not honour set-user-id programs or devices.
fn mounts() -> Finding {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let weak = table.lines().filter(|line| {
        let mut fields = line.split(' ');
        let (path, options) = (fields.nth(4).unwrap_or_default(), fields.next().unwrap_or_default());
        let has = |option: &str| options.split(',').any(|other| other == option);
        // A mount that is a single device, or a mask by one. No file can be created on it or
        // executed from it.
        let one_device = fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device());
        // Mounts that contain devices by design. A08 tests whether devices can be added.
        let device = path == "/dev" || path.starts_with("/dev/") || path.starts_with("/proc/");
        has("rw") && !one_device && (!has("nosuid") || (!has("nodev") && !device))
    });
    let weak: Vec<_> = weak.filter_map(|line| line.split(' ').nth(4)).collect();
    Finding::new(
        "A13.mounts",
        "find a writable mount that honours set-user-id or devices",
        !weak.is_empty(),
        format!("{weak:?}"),
    )
}

/// Checks that the system directories are not writable.
fn system_writable() -> Finding {
    let tried = ["/", "/usr", "/usr/bin", "/etc", "/dev", "/run", "/var"];
    // Only checks the access rights and writes nothing, because the probe also runs on hosts that
    // must not change.
    let may = |directory: &&&str| rustix::fs::access(**directory, rustix::fs::Access::WRITE_OK).is_ok();
    let written: Vec<_> = tried.iter().filter(may).collect();
    Finding::new(
        "A08.system_writable",
        "write in the system's directories",
        !written.is_empty(),
        format!("{written:?}"),
    )
}
