//! Drops all privileges and verifies it.
//!
//! The invariant: when [`give_up_everything`] returns `Ok`, the kernel has confirmed that this
//! process has no capability in any set, cannot gain one, runs under the filter, and has no open
//! file except those to keep. Otherwise it serves no request.

use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;

use rustix::process::{DumpableBehavior, Gid, Uid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capability_is_in_ambient_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits, set_no_new_privs,
};

use super::filter::{self, ModeBits};
use super::inside::open_null;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::spec::AGENT_ID;
use crate::sys::call_listener::CallListener;
use crate::sys::{seccomp, signals};

/// With these bits uid 0 has no special meaning, and no exec gains a capability.
const SECURE_BITS: CapabilitiesSecureBits = CapabilitiesSecureBits::NO_ROOT
    .union(CapabilitiesSecureBits::NO_ROOT_LOCKED)
    .union(CapabilitiesSecureBits::KEEP_CAPS_LOCKED)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE)
    .union(CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED);

pub(super) fn give_up_everything(keep: &[RawFd], bits: ModeBits) -> Result<(), Refused> {
    leave_files()?;
    drop_capabilities().or_refuse(Primitive::Capabilities, || "cannot drop the capabilities".to_owned())?;
    close(keep, &filter::program_of_init(bits))
}

/// Installs the child's filter. Every child of process 1 calls this before anything else.
pub(crate) fn close_child() -> io::Result<()> {
    seccomp::install(&filter::program_of_child())
}

/// Makes the kernel ask process 1 about every `sched_getaffinity` in the box.
pub(crate) fn listen_to_affinity() -> io::Result<CallListener> {
    CallListener::install(&filter::program_of_affinity_view())
}

/// Does the same for a process that was started without privileges. There is nothing to drop, but
/// everything to verify.
pub(super) fn prove_nothing_is_held(keep: &[RawFd]) -> Result<(), Refused> {
    leave_files()?;
    // A container has no writable host directory, so it may set every mode bit.
    close(keep, &filter::program(ModeBits::Any))
}

fn leave_files() -> Result<(), Refused> {
    let standard = || "cannot replace the standard files".to_owned();
    let null = open_null().or_refuse(Primitive::Capabilities, standard)?;
    rustix::stdio::dup2_stdin(&null).or_refuse(Primitive::Capabilities, standard)?;
    rustix::stdio::dup2_stdout(&null).or_refuse(Primitive::Capabilities, standard)?;
    rustix::stdio::dup2_stderr(&null).or_refuse(Primitive::Capabilities, standard)?;
    drop(null);
    signals::close_all_on_exec().or_refuse(Primitive::Capabilities, || "cannot mark the open files".to_owned())
}

fn close(keep: &[RawFd], program: &[libc::sock_filter]) -> Result<(), Refused> {
    set_no_new_privs(true).or_refuse(Primitive::NoNewPrivileges, || "cannot set no_new_privs".to_owned())?;
    // Other processes in the box must not read the memory, the files or the program of process 1.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .or_refuse(Primitive::Capabilities, || "cannot close process 1 to the others".to_owned())?;
    seccomp::install(program).or_refuse(Primitive::Seccomp, || "cannot install the filter".to_owned())?;
    verify(keep)
}

fn drop_capabilities() -> rustix::io::Result<()> {
    for number in 0..64 {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            // The kernel has fewer than 64 capabilities.
            Err(rustix::io::Errno::INVAL) => break,
            result => result?,
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities_secure_bits(SECURE_BITS)?;
    let (user, group) = (Uid::from_raw(AGENT_ID), Gid::from_raw(AGENT_ID));
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Verifies the state with the kernel.
fn verify(keep: &[RawFd]) -> Result<(), Refused> {
    let refused = |reason: String| Refused {
        primitive: Primitive::Capabilities,
        doing: "the box is not closed".to_owned(),
        reason,
    };
    let status = fs::read_to_string("/proc/self/status").map_err(|error| refused(error.to_string()))?;
    let agent = format!("{AGENT_ID}\t{AGENT_ID}\t{AGENT_ID}\t{AGENT_ID}");
    let none = "0000000000000000";
    let expected = [
        ("CapInh", none),
        ("CapPrm", none),
        ("CapEff", none),
        ("CapBnd", none),
        ("CapAmb", none),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("Uid", &agent),
        ("Gid", &agent),
    ];
    for (field, value) in expected {
        let found = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(":\t"));
        let found = found.or_else(|| untold(field));
        if found != Some(value) {
            return Err(refused(format!("{field} is {found:?} and not {value:?}")));
        }
    }
    for entry in fs::read_dir("/proc/self/fd").map_err(|error| refused(error.to_string()))? {
        let entry = entry.map_err(|error| refused(error.to_string()))?;
        let number: Option<RawFd> = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let listing = target.starts_with("/proc") && target.ends_with("fd");
        if !number.is_some_and(|number| number <= 2 || keep.contains(&number)) && !listing {
            return Err(refused(format!("file {number:?} is still open: {}", target.display())));
        }
    }
    Ok(())
}

/// Returns the value of a field that gVisor does not list in `/proc/self/status`.
fn untold(field: &str) -> Option<&'static str> {
    match field {
        "NoNewPrivs" => rustix::thread::no_new_privs().is_ok_and(|set| set).then_some("1"),
        // gVisor has no ambient set.
        "CapAmb" => {
            let asked = capability_is_in_ambient_set(CapabilitySet::CHOWN);
            matches!(asked, Err(rustix::io::Errno::INVAL)).then_some("0000000000000000")
        }
        _ => None,
    }
}

/// Closes the report: its descriptor now refers to the null device.
pub(super) fn close_report(report: &File) -> Result<(), Refused> {
    let null = open_null().or_refuse(Primitive::Spec, || "cannot open /dev/null".to_owned())?;
    signals::duplicate_onto(&null, report).or_refuse(Primitive::Spec, || "cannot close the report".to_owned())
}
