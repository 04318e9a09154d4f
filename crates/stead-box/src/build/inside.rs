//! The inner half: process 1, from its first instruction to its first request.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Gid, Resource, Rlimit, Uid, fchdir, getrlimit, pivot_root, setrlimit};
use rustix::thread::UnshareFlags;

use super::filter::ModeBits;
use super::launch::{Outer, Report, bring_up_loopback, say};
use super::root::{Assembled, STAGING};
use super::tree::{self, Opt, WRITTEN};
use super::{lockdown, masks, volume};
use crate::error::{OrRefuse, Primitive, Refused};
use crate::init::{self, Compared};
use crate::spec::{Access, Bound, BoxSpec, Ids, Volume};
use crate::sys::{clone, keyring, mount_attr};

/// What `/dev/shm` may hold. It is memory, and counted as the box's where memory is limited.
const SHARED_MEMORY_BYTES: &str = "67108864";
const OPEN_FILES: u64 = 65_536;

/// Builds the rest, says that the box is ready, and serves. Never returns.
pub(super) fn run(outer: Outer, assembled: Option<Assembled>, report: &File) -> ! {
    match set_up(outer, assembled, report) {
        Ok(handles) => init::serve(handles),
        Err(refused) => say(report, &Report::Refused(refused)),
    }
    clone::leave(1)
}

fn set_up(mut outer: Outer, assembled: Option<Assembled>, report: &File) -> Result<init::Handles, Refused> {
    match outer.spec.ids {
        Ids::Range { .. } => become_root()?,
        Ids::Own => bring_up_loopback()?,
    }
    clone::unshare(UnshareFlags::NEWCGROUP)
        .or_refuse(Primitive::Namespaces, || "cannot make a namespace of control groups".to_owned())?;
    let assembled = match assembled {
        Some(assembled) => assembled,
        None => outer.assemble_inside()?,
    };
    let compared = enter_root(&outer.spec, &assembled)?;
    rustix::system::sethostname(b"stead").or_refuse(Primitive::Hostname, || "cannot name the box".to_owned())?;
    keyring::leave_session_keyring().or_refuse(Primitive::Keyring, || "cannot leave the session keyring".to_owned())?;
    limit_resources(&mut outer)?;
    let bits = match &outer.spec.bound {
        Some(Bound { access: Access::Write, .. }) => ModeBits::Permissions,
        Some(Bound { access: Access::Read, .. }) | None => ModeBits::Any,
    };
    let (mut handles, held) = outer.into_handles();
    handles.compared = compared;
    let mut keep = vec![handles.door.as_raw_fd().unwrap_or(0), report.as_raw_fd()];
    keep.extend(handles.cgroup.iter().chain(&handles.memory_events).map(AsRawFd::as_raw_fd));
    if let Some(compared) = &handles.compared {
        let trees = [&compared.before, &compared.upper].into_iter().chain(compared.written.iter().flatten());
        keep.extend(trees.map(AsRawFd::as_raw_fd));
    }
    lockdown::give_up_everything(&keep, bits)?;
    say(report, &Report::Ready(held));
    // The report is the caller's: a dup of the null device takes its number, and the caller sees it closed.
    lockdown::close_report(report)?;
    Ok(handles)
}

/// Root of the user namespace: the owner of the new mounts, and nobody on the host.
fn become_root() -> Result<(), Refused> {
    let refused = || "cannot become the box's root".to_owned();
    rustix::thread::set_thread_groups(&[]).or_refuse(Primitive::IdMap, refused)?;
    let (user, group) = (Uid::ROOT, Gid::ROOT);
    rustix::thread::set_thread_res_gid(group, group, group).or_refuse(Primitive::IdMap, refused)?;
    rustix::thread::set_thread_res_uid(user, user, user).or_refuse(Primitive::IdMap, refused)
}

fn enter_root(spec: &BoxSpec, assembled: &Assembled) -> Result<Option<Compared>, Refused> {
    let staging = tree::open_directory(CWD, STAGING)?;
    // A copy over itself: the one that root assembled is locked in place for this namespace, and could not become the root.
    let root = tree::copy(&staging, "root", 0)?;
    tree::attach(&root, staging.as_fd(), "root")?;

    let hardened = WRITTEN | mount_attr::NOEXEC;
    let proc = tree::new("proc", &[], hardened, Primitive::Proc)?;
    tree::attach(&proc, root.as_fd(), "proc")?;
    forbid_namespaces(&root)?;
    masks::apply(&root, &staging)?;
    let terminals = [Opt::Flag("newinstance"), Opt::Value("ptmxmode", "0666"), Opt::Value("mode", "0620")];
    let terminals = tree::new("devpts", &terminals, mount_attr::NOSUID | mount_attr::NOEXEC, Primitive::Devpts)?;
    tree::attach(&terminals, root.as_fd(), "dev/pts")?;
    let shared = [Opt::Value("size", SHARED_MEMORY_BYTES), Opt::Value("mode", "1777"), Opt::Value("nr_inodes", "16k")];
    tree::attach(&tree::new("tmpfs", &shared, WRITTEN, Primitive::Mount)?, root.as_fd(), "dev/shm")?;
    for (from, to) in [("tmp", "tmp"), ("home", "home/agent")] {
        if spec.volume == Volume::Directory {
            // Mounted as it is, it would show in the box's table of mounts where the server keeps it.
            overlay(&[], &Upper { upper: from, work: &format!("work-{from}") }, to)?;
        } else {
            tree::attach(&tree::copy(&staging, format!("volume/{from}"), WRITTEN)?, root.as_fd(), to)?;
        }
    }
    // An overlay also where there is nothing below: the upper may become a layer of another box, and through an overlay nobody can
    // write into it what an overlay would take for its own marks.
    if spec.bound.is_some() {
        tree::attach(&tree::copy(&staging, "bound", 0)?, root.as_fd(), "workspace")?;
        pivot(&root, spec)?;
        return Ok(None);
    }
    let upper = volume::generation(spec.generation);
    overlay(&assembled.layers.layers, &Upper { upper: &upper, work: "work" }, "workspace")?;
    let compared = assembled.layers.compared(&upper)?;
    pivot(&root, spec)?;
    Ok(compared)
}

/// No user namespace in this one, and so no other either: the filter says so too, but this is said by the kernel's own count.
fn forbid_namespaces(root: &OwnedFd) -> Result<(), Refused> {
    let refused = || "cannot forbid namespaces inside the box".to_owned();
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let most = openat(root, "proc/sys/user/max_user_namespaces", flags, Mode::empty())
        .or_refuse(Primitive::Namespaces, refused)?;
    rustix::io::write(most, b"0").map(drop).or_refuse(Primitive::Namespaces, refused)
}

/// Directories of the volume.
struct Upper<'a> {
    upper: &'a str,
    work: &'a str,
}

/// Mounted by the box's own root, so that what the kernel does on the overlay's behalf it does with the box's rights.
fn overlay(lower: &[String], Upper { upper, work }: &Upper<'_>, to: &str) -> Result<(), Refused> {
    let lower = lower_option(lower);
    let options = format!("{lower},upperdir={STAGING}/volume/{upper},workdir={STAGING}/volume/{work},userxattr");
    mount_overlay(&options, &format!("root/{to}"), MountFlags::NOSUID | MountFlags::NODEV)
}

/// The layers as overlayfs wants them, the topmost first; an empty one where there is none.
pub(super) fn lower_option(lower: &[String]) -> String {
    let mut paths: Vec<_> = lower.iter().rev().map(|layer| format!("{STAGING}/{layer}")).collect();
    if paths.is_empty() {
        paths.push(format!("{STAGING}/empty"));
    }
    format!("lowerdir={}", paths.join(":"))
}

/// Puts an overlay at a name below [`STAGING`].
pub(super) fn mount_overlay(options: &str, at: &str, flags: MountFlags) -> Result<(), Refused> {
    let target = Path::new(STAGING).join(at);
    let options = std::ffi::CString::new(options).unwrap_or_default();
    mount("overlay", &target, "overlay", flags, options.as_c_str())
        .or_refuse(Primitive::Overlay, || "cannot mount the workspace's layers".to_owned())
}

fn pivot(root: &impl AsFd, spec: &BoxSpec) -> Result<(), Refused> {
    let refused = || format!("cannot enter the root of box {}", spec.id);
    fchdir(root).or_refuse(Primitive::PivotRoot, refused)?;
    // Onto itself: the old root then lies on top of the new one, and is taken off with everything that was staged.
    pivot_root(".", ".").or_refuse(Primitive::PivotRoot, refused)?;
    unmount(".", UnmountFlags::DETACH).or_refuse(Primitive::PivotRoot, refused)?;
    rustix::process::chdir("/").or_refuse(Primitive::PivotRoot, refused)
}

/// Limits that are the process's own and inherited by all it starts.
fn limit_resources(outer: &mut Outer) -> Result<(), Refused> {
    let refused = || "cannot set a resource limit".to_owned();
    let files = getrlimit(Resource::Nofile).maximum.map_or(OPEN_FILES, |most| most.min(OPEN_FILES));
    let both = |value| Rlimit { current: Some(value), maximum: Some(value) };
    setrlimit(Resource::Core, both(0)).or_refuse(Primitive::Spec, refused)?;
    setrlimit(Resource::Nofile, Rlimit { current: Some(files.min(4_096)), maximum: Some(files) })
        .or_refuse(Primitive::Spec, refused)?;
    if let (Some(pids), false) = (outer.spec.limits.pids, outer.held.pids) {
        // Counted per user namespace (since Linux 5.14), so it is the box's own number even when the user has many processes.
        setrlimit(Resource::Nproc, both(pids)).or_refuse(Primitive::Spec, refused)?;
        outer.held.pids = getrlimit(Resource::Nproc).current == Some(pids);
    }
    Ok(())
}

/// Standard input, output and error of a program that has no use for them.
pub(super) fn open_null() -> io::Result<rustix::fd::OwnedFd> {
    Ok(rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty())?)
}
