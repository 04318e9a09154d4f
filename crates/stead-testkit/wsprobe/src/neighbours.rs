//! A02, A12: other processes of the host, and ways to communicate with them. Environment variables
//! name the canaries.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::time::Duration;

use crate::Finding;

pub(crate) fn probe() -> Vec<Finding> {
    let canary = |name: &str| std::env::var(name).unwrap_or_default();
    let mut findings = vec![processes(&canary("PROBE_TEXT")), signal(&canary("PROBE_PID"))];
    let shared = canary("PROBE_SHARED");
    findings.push(Finding::new(
        "A12.shared_file",
        "read a file of the host's /dev/shm",
        fs::read(&shared).is_ok(),
        &shared,
    ));
    findings.push(segment(&canary("PROBE_SEGMENT")));

    let file = canary("PROBE_FILE");
    findings.push(Finding::new("A12.file", "read a file of the host", fs::read(&file).is_ok(), &file));
    let socket = canary("PROBE_SOCKET");
    findings.push(Finding::new(
        "A12.socket",
        "connect to a socket file of the host",
        UnixStream::connect(&socket).is_ok(),
        &socket,
    ));
    let name = canary("PROBE_ABSTRACT");
    let connected = UnixAddr::from_abstract_name(&name).and_then(|address| UnixStream::connect_addr(&address));
    findings.push(Finding::new("A12.abstract", "connect to an abstract socket of the host", connected.is_ok(), &name));
    let port: u16 = canary("PROBE_PORT").parse().unwrap_or(1);
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let connected = TcpStream::connect_timeout(&address, Duration::from_secs(2));
    findings.push(Finding::new(
        "A12.port",
        "connect to a port of the host",
        connected.is_ok(),
        format!("{:?}", connected.err()),
    ));
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let same = hostname.trim() == canary("PROBE_HOSTNAME");
    findings.push(Finding::new("A12.hostname", "learn the host's name", same, hostname.trim()));
    let interfaces = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let others =
        interfaces.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| name.trim() != "lo").count();
    findings.push(Finding::new(
        "A12.interfaces",
        "find a network interface beside loopback",
        others > 0,
        others.to_string(),
    ));
    findings
}

/// Checks whether a process of the host can be signalled. In a pid namespace the number may belong
/// to another process, so only a process with the canary's name counts.
fn signal(pid: &str) -> Finding {
    let process = pid.parse().ok().and_then(rustix::process::Pid::from_raw);
    let named = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let found = process.is_some_and(|process| rustix::process::test_kill_process(process).is_ok());
    Finding::new("A02.signal", "signal a process of the host", found && named.trim() == "sleep", pid)
}

/// System V shared memory is identified by numbers, not by names that a mount could hide.
fn segment(id: &str) -> Finding {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    let seen = !id.is_empty() && table.lines().skip(1).any(|line| line.split_ascii_whitespace().nth(1) == Some(id));
    Finding::new("A12.segment", "see shared memory of the host", seen, id)
}

/// Looks for the canary in the environment and the command line of every process.
fn processes(canary: &str) -> Finding {
    let own = std::process::id().to_string();
    let mut hits = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == own || !name.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        let seen = ["environ", "cmdline"].iter().any(|file| {
            let content = fs::read(entry.path().join(file)).unwrap_or_default();
            !canary.is_empty() && String::from_utf8_lossy(&content).contains(&format!("CANARY={canary}"))
        });
        if seen {
            hits.push(name);
        }
    }
    Finding::new("A02.processes", "see a process of the host", !hits.is_empty(), format!("{hits:?}"))
}
