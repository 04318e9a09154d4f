//! Kills a container from outside, without the container engine.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// Length of a container id.
const ID_LENGTH: usize = 64;

/// Kills the first process of a container, and with it all others, and waits until it is reaped, at
/// most for `patience`.
///
/// It only kills the process if it is in a control group of the container with this id. So a reused
/// pid, or a pid of another host, is never killed.
pub fn end_container(pid: i32, id: &str, patience: Duration) {
    let whole = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let Some(process) = Pid::from_raw(pid).filter(|_| whole) else { return };
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return };
    // Read this after opening the handle. It then describes the process of the handle, unless that
    // process has ended and no signal can reach it.
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    if !groups.contains(id) || pidfd_send_signal(&handle, Signal::KILL).is_err() {
        return;
    }
    let deadline = Instant::now() + patience;
    let timeout = Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: patience.subsec_nanos().into() };
    let ended = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0);
    let entry = format!("/proc/{pid}");
    while ended && Path::new(&entry).exists() && Instant::now() < deadline {
        std::thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_of_no_such_container_lives() {
        let mut other = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = i32::try_from(other.id()).unwrap();
        for id in ["", "0", &"a".repeat(64), &"/".repeat(64)] {
            end_container(pid, id, Duration::from_secs(1));
            assert_eq!(other.try_wait().unwrap(), None, "{id}");
        }
        other.kill().unwrap();
        other.wait().unwrap();
        end_container(pid, &"a".repeat(64), Duration::from_secs(1));
        end_container(0, &"a".repeat(64), Duration::from_secs(1));
    }
}
