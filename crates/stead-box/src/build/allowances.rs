//! Kernel resources that are counted per user and not per control group.
//!
//! The kernel charges inotify instances and watches, POSIX message queues, queued signals and
//! locked shared memory to a user, in the user namespace of the process and in every ancestor
//! namespace. In the ancestors of a box that user is the owner of the box's user namespace. The
//! invariant: for a box that root starts, that user is the first id of the box's own range. So a
//! box can only exhaust its own resources.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::process::{Resource, Rlimit, Uid, getrlimit, setrlimit};
use rustix::thread::{CapabilitySets, capabilities, set_capabilities, set_thread_res_uid};

use crate::error::{OrRefuse, Primitive, Refused};
use crate::spec::{BoxSpec, Ids};
use crate::sys::clone::Side;

/// Maximum number of pseudo-terminals in the box's own devpts. `kernel.pty.max` limits those of all
/// instances together, 4096 by default.
pub const PSEUDO_TERMINALS: u32 = 64;
/// Maximum number of queued signals and POSIX timers of all processes of a box together.
const QUEUED_SIGNALS: u64 = 4_096;
/// Maximum size of POSIX message queues in bytes. This is the kernel's default per user.
const MESSAGE_QUEUE_BYTES: u64 = 819_200;
/// Maximum size of locked memory in bytes. This is also the kernel's default.
const LOCKED_BYTES: u64 = 8 << 20;
/// Limits of queued signals and message queues for a box that shares its user with others. They
/// leave room for one queue of the default size.
pub const SHARED_QUEUED_SIGNALS: u64 = 1_024;
pub const SHARED_MESSAGE_QUEUE_BYTES: u64 = 102_400;

/// Open files per process: the soft limit, and the maximum hard limit.
pub const OPEN_FILES: u64 = 4_096;
const MOST_OPEN_FILES: u64 = 65_536;
/// Number of processes assumed for a box without a limit of processes.
const ASSUMED_PROCESSES: u64 = 4_096;

/// The user that the kernel charges for the box's namespaces: the box's own, or one that other
/// processes are charged to as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charged {
    ToTheBox,
    ToASharedUser,
}

impl Charged {
    pub(super) fn of(ids: Ids) -> Self {
        match ids {
            Ids::Range { .. } => Self::ToTheBox,
            Ids::Own => Self::ToASharedUser,
        }
    }
}

/// Makes the box the owner of its user namespace: runs `start`, which forks into it, with the first
/// id of the box's range as the effective user. The capabilities stay, because joining a control
/// group and making a user namespace may need them.
pub(super) fn charged_to_the_box(ids: Ids, start: impl FnOnce() -> io::Result<Side>) -> io::Result<Side> {
    let Ids::Range { first } = ids else { return start() };
    let (root, owner) = (Uid::ROOT, Uid::from_raw(first));
    let held = capabilities(None)?;
    set_thread_res_uid(root, owner, root)?;
    let started = set_capabilities(None, CapabilitySets { effective: held.permitted, ..held })
        .map_err(io::Error::from)
        .and_then(|()| start());
    // The child has no mapped ids yet, and sets its own later. The kernel restores the parent's
    // effective capabilities together with the id.
    if !matches!(started, Ok(Side::Child)) {
        set_thread_res_uid(root, root, root)?;
    }
    started
}

/// Limits the resources that the kernel counts for all processes of one user in one user namespace,
/// and so for a box as a whole. Every process of the box inherits the limits.
///
/// The kernel also copies the limits of the process that makes a user namespace into it, and
/// compares them with the charges of the namespace's owner. For a box that is charged alone, call
/// this before. For a box that shares its user, call this inside: otherwise the user's whole usage
/// would count against the limit of one box.
pub(super) fn limit_queues(charged: Charged) -> Result<(), Refused> {
    let (signals, queues) = match charged {
        Charged::ToTheBox => (QUEUED_SIGNALS, MESSAGE_QUEUE_BYTES),
        Charged::ToASharedUser => (SHARED_QUEUED_SIGNALS, SHARED_MESSAGE_QUEUE_BYTES),
    };
    at_most(Resource::Sigpending, signals)?;
    at_most(Resource::Msgqueue, queues)?;
    at_most(Resource::Memlock, LOCKED_BYTES)
}

/// Lowers both limits to `most`. A lower hard limit of the caller stays.
fn at_most(resource: Resource, most: u64) -> Result<(), Refused> {
    let value = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    let limit = Rlimit { current: Some(value), maximum: Some(value) };
    setrlimit(resource, limit).or_refuse(Primitive::Spec, || format!("cannot limit {resource:?} to {value}"))
}

/// Limits open files. The host has one limit for all processes (`fs.file-max`), from which only
/// root is exempt. All processes of one box together get at most a quarter of it, but each process
/// gets at least [`OPEN_FILES`].
pub(super) fn limit_open_files(spec: &BoxSpec) -> Result<(), Refused> {
    let all = fs::read_to_string("/proc/sys/fs/file-max").ok().and_then(|text| text.trim().parse::<u64>().ok());
    let fair = open_files(all, spec.limits.pids);
    let hard = getrlimit(Resource::Nofile).maximum.map_or(fair, |hard| hard.min(fair));
    let limit = Rlimit { current: Some(hard.min(OPEN_FILES)), maximum: Some(hard) };
    setrlimit(Resource::Nofile, limit).or_refuse(Primitive::Spec, || "cannot limit open files".to_owned())
}

fn open_files(of_the_host: Option<u64>, processes: Option<u64>) -> u64 {
    let processes = processes.unwrap_or(ASSUMED_PROCESSES).max(1);
    of_the_host.map_or(MOST_OPEN_FILES, |all| (all / 4 / processes).clamp(OPEN_FILES, MOST_OPEN_FILES))
}

/// A counter of the box's user namespace, with its values for a box with its own and with a shared
/// user.
struct Counter {
    name: &'static str,
    own: &'static str,
    shared: &'static str,
    needed: Needed,
}

#[derive(PartialEq, Eq)]
enum Needed {
    Always,
    WhereKnown,
}

const COUNTERS: &[Counter] = &[
    // No nested user namespaces, and so no other new namespaces either. The seccomp filter forbids
    // them too, but this is the kernel's own limit.
    Counter { name: "max_user_namespaces", own: "0", shared: "0", needed: Needed::Always },
    Counter { name: "max_inotify_instances", own: "128", shared: "32", needed: Needed::WhereKnown },
    Counter { name: "max_inotify_watches", own: "65536", shared: "16384", needed: Needed::WhereKnown },
    Counter { name: "max_fanotify_groups", own: "0", shared: "0", needed: Needed::WhereKnown },
    Counter { name: "max_fanotify_marks", own: "0", shared: "0", needed: Needed::WhereKnown },
];

/// Caps the counters of the caller's user namespace, which must be the box's.
///
/// `directory` is `/proc/sys/user` of any `/proc`: the kernel resolves names in it for the caller's
/// namespace.
pub(super) fn cap_counters(directory: &impl AsFd, charged: Charged) -> Result<(), Refused> {
    for Counter { name, own, shared, needed } in COUNTERS {
        let value = if charged == Charged::ToTheBox { own } else { shared };
        let refused = || format!("cannot set user.{name} to {value} inside the box");
        match openat(directory, *name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) if *needed == Needed::WhereKnown => {}
            opened => {
                let file: OwnedFd = opened.or_refuse(Primitive::Namespaces, refused)?;
                rustix::io::write(&file, value.as_bytes()).or_refuse(Primitive::Namespaces, refused)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_are_a_fair_part_of_the_hosts() {
        assert_eq!(open_files(Some(u64::MAX >> 1), Some(512)), 65_536);
        assert_eq!(open_files(Some(20_000_000), Some(512)), 9_765);
        assert_eq!(open_files(Some(2_400_000), Some(512)), OPEN_FILES);
        assert_eq!((open_files(None, None), open_files(Some(1), None)), (65_536, OPEN_FILES));
    }
}
