//! Maps the box's user and group ids to ids of the host.

use std::fs;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::process::{Gid, Pid, Uid, WaitOptions, getegid, geteuid, getpid, waitpid};
use rustix::thread::UnshareFlags;

use crate::error::{OrRefuse, Primitive, Refused};
use crate::spec::{AGENT_ID, Ids, RANGE_LENGTH};
use crate::sys::clone::{self, Parenthood, Side};

/// Maps the ids of `child`, which has just entered a new user namespace.
pub(super) fn map(child: Pid, ids: Ids) -> Result<(), Refused> {
    let (users, groups) = match ids {
        Ids::Range { first } => {
            let line = format!("0 {first} {RANGE_LENGTH}\n");
            (line.clone(), line)
        }
        Ids::Own => return map_one(child, geteuid(), getegid()),
    };
    write(child, "gid_map", &groups)?;
    write(child, "uid_map", &users)
}

/// Shows one user and one group as the agent's.
fn map_one(child: Pid, user: Uid, group: Gid) -> Result<(), Refused> {
    // Required before an unprivileged user may map a group, because a group can also deny access.
    write(child, "setgroups", "deny")?;
    write(child, "gid_map", &format!("{AGENT_ID} {} 1\n", group.as_raw()))?;
    write(child, "uid_map", &format!("{AGENT_ID} {} 1\n", user.as_raw()))
}

/// Moves this process into a user and a mount namespace of its own. Its user keeps its files.
pub(super) fn enter_own() -> Result<(), Refused> {
    let (user, group) = (geteuid(), getegid());
    clone::unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)
        .or_refuse(Primitive::Namespaces, || "cannot make a user namespace".to_owned())?;
    map_one(getpid(), user, group)
}

fn write(child: Pid, file: &str, text: &str) -> Result<(), Refused> {
    let pid = child.as_raw_nonzero();
    fs::write(format!("/proc/{pid}/{file}"), text)
        .or_refuse(Primitive::IdMap, || format!("cannot write {} to {file}", text.trim_end()))
}

/// An id mapping for a mount: `count` ids from `user` and `group` on appear as the ids from `shown`
/// on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owners {
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) shown: u32,
    pub(super) count: u32,
}

/// Returns a user namespace that only holds an id mapping.
pub(super) fn owner_map(owners: Owners) -> Result<OwnedFd, Refused> {
    let refused = || "cannot make the owner map of the layers".to_owned();
    let (wait, release) = std::io::pipe().or_refuse(Primitive::IdMappedMount, refused)?;
    let side = clone::into_namespaces(libc::CLONE_NEWUSER as u64, Parenthood::Caller, None)
        .or_refuse(Primitive::IdMappedMount, refused)?;
    match side {
        Side::Child => {
            drop(release);
            let mut wait = wait;
            let _ = wait.read(&mut [0]);
            clone::leave(0)
        }
        Side::Parent(pid) => {
            let namespace = map_owners(pid, owners);
            drop(release);
            let _ = waitpid(Some(pid), WaitOptions::empty());
            namespace
        }
    }
}

fn map_owners(pid: Pid, Owners { user, group, shown, count }: Owners) -> Result<OwnedFd, Refused> {
    write(pid, "gid_map", &format!("{group} {shown} {count}\n"))?;
    write(pid, "uid_map", &format!("{user} {shown} {count}\n"))?;
    let namespace = File::open(format!("/proc/{}/ns/user", pid.as_raw_nonzero()));
    Ok(namespace.or_refuse(Primitive::IdMappedMount, || "cannot open the owner map".to_owned())?.into())
}
