//! A14: resources that the kernel counts per user or for the whole host, and that a box must not
//! use without a limit.

use std::fs::{self, File};
use std::os::fd::OwnedFd;

use rustix::fs::inotify;
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{Resource, getpriority_process, getrlimit, setpriority_process};

use crate::Finding;
use crate::raw::in_child;

/// Limits of a box that has its own user. A box that shares a user has lower limits.
const TERMINALS: usize = 64;
const INOTIFY_INSTANCES: usize = 128;
const LIMITS: &[(&str, Resource, u64)] = &[
    ("queued_signals", Resource::Sigpending, 4_096),
    ("message_queues", Resource::Msgqueue, 819_200),
    ("locked_memory", Resource::Memlock, 8 << 20),
    ("open_files", Resource::Nofile, 65_536),
    ("core_dumps", Resource::Core, 0),
];

pub(crate) fn probe() -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        LIMITS.iter().map(|(name, resource, most)| limit(name, *resource, *most)).collect();
    let terminals = count(TERMINALS, || File::options().read(true).write(true).open("/dev/ptmx").map(OwnedFd::from));
    findings.push(more_than("terminals", TERMINALS, terminals));
    let watchers = count(INOTIFY_INSTANCES, || inotify::init(inotify::CreateFlags::CLOEXEC).map_err(Into::into));
    findings.push(more_than("inotify", INOTIFY_INSTANCES, watchers));
    let namespaces = fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    let some = namespaces.trim().parse::<u64>().is_ok_and(|most| most > 0);
    findings.push(Finding::new("A14.user_namespaces", "have user namespaces left to make", some, namespaces.trim()));
    findings.push(socket_buffer());
    findings.push(priority());
    findings
}

fn limit(name: &str, resource: Resource, most: u64) -> Finding {
    let hard = getrlimit(resource).maximum;
    let beyond = hard.is_none_or(|hard| hard > most);
    Finding::new(format!("A14.{name}"), format!("have a limit above {most}"), beyond, format!("{hard:?}"))
}

/// Returns how many descriptors `take` gives at once. It stops at one more than `most`.
fn count(most: usize, take: impl Fn() -> std::io::Result<OwnedFd>) -> usize {
    let kept: Vec<OwnedFd> = (0..=most).map_while(|_| take().ok()).collect();
    kept.len()
}

fn more_than(name: &str, most: usize, found: usize) -> Finding {
    Finding::new(format!("A14.{name}"), format!("have more than {most}"), found > most, found.to_string())
}

fn socket_buffer() -> Finding {
    let enlarged = || -> rustix::io::Result<(usize, usize)> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        let before = sockopt::socket_recv_buffer_size(&socket)?;
        sockopt::set_socket_recv_buffer_size(&socket, before * 4)?;
        Ok((before, sockopt::socket_recv_buffer_size(&socket)?))
    };
    let sizes = enlarged();
    let larger = sizes.is_ok_and(|(before, after)| after > before);
    Finding::new("A14.socket_buffer", "enlarge the buffer of a socket", larger, format!("{sizes:?}"))
}

/// Only process 1 may have a priority above the default. A child must neither inherit nor set one.
fn priority() -> Finding {
    let raised = in_child(|| {
        let own = getpriority_process(None).unwrap_or(0);
        let error = setpriority_process(None, -1).err().map_or(0, rustix::io::Errno::raw_os_error);
        if own < 0 { 0 } else { error }
    });
    Finding::new("A14.priority", "run before others", raised == Some(0), format!("{raised:?}"))
}
