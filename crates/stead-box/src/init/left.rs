//! Processes that a command leaves running.

use rustix::process::Pid;

use crate::protocol::{Left, LeftProcess};

/// Maximum number of listed processes.
const MOST_LISTED: usize = 16;
/// Maximum number of bytes of a command line. The process itself chooses it.
const MOST_COMMAND: usize = 200;

/// Counts these processes and describes the first of them. Zombies have ended and do not count.
pub(super) fn of(processes: &[Pid]) -> Left {
    let alive: Vec<Pid> = processes.iter().copied().filter(|pid| !is_zombie(*pid)).collect();
    let described = alive
        .iter()
        .take(MOST_LISTED)
        .map(|pid| LeftProcess { pid: pid.as_raw_nonzero().get(), command: command_line(*pid) });
    Left { total: alive.len() as u64, processes: described.collect() }
}

fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // The state follows the name, which may contain anything. A process without an entry has ended.
    stat.map_or(true, |stat| stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with(['Z', 'X'])))
}

/// Returns the start of a process's command line; empty for a zombie.
pub(super) fn command_line(pid: Pid) -> String {
    let mut bytes = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    bytes.truncate(MOST_COMMAND);
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect::<String>().trim_end().to_owned()
}
