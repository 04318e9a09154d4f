//! The inner half of the builder: process 1, from its first instruction to its first request.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Gid, Resource, Rlimit, Uid, fchdir, getrlimit, pivot_root, setrlimit};
use rustix::thread::UnshareFlags;

use super::detached_mount::{self, Opt, WRITTEN};
use super::filter::ModeBits;
use super::launch::{Outer, Report, bring_up_loopback, say};
use super::network::NetworkSockets;
use super::root::{Assembled, STAGING};
use super::{allowances, lockdown, masks, network, shown_resources, volume};
use crate::affinity_view::AffinityView;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::init::{self, Compared};
use crate::spec::{Access, Bound, BoxSpec, Ids, Network, Volume};
use crate::sys::{clone, keyring, mount_attr};

/// Size of `/dev/shm`. It counts as the box's memory if memory is limited.
const SHARED_MEMORY_BYTES: &str = "67108864";

/// Builds the rest of the box, reports that it is ready, and serves. Never returns.
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
        Ids::Own => {
            bring_up_loopback()?;
            if outer.spec.network == Network::Captured {
                outer.handles.network = Some(network::furnish()?);
            }
        }
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
    let processors = shown_resources::processors(outer.spec.limits.cpu_millis);
    let (mut handles, held) = outer.into_handles();
    handles.compared = compared;
    let mut keep = vec![handles.door.as_raw_fd().unwrap_or(0), report.as_raw_fd()];
    keep.extend(handles.cgroup.iter().chain(handles.events.files()).map(AsRawFd::as_raw_fd));
    keep.extend(handles.network.iter().flat_map(NetworkSockets::files).map(AsRawFd::as_raw_fd));
    if let Some(compared) = &handles.compared {
        let trees = [&compared.before, &compared.upper].into_iter().chain(compared.written.iter().flatten());
        keep.extend(trees.map(AsRawFd::as_raw_fd));
    }
    lockdown::give_up_everything(&keep, bits)?;
    handles.affinity = processors.and_then(|shown| AffinityView::install(shown).ok());
    say(report, &Report::Ready(held));
    // Replaces the report pipe with the null device, so that the caller sees it closed.
    lockdown::close_report(report)?;
    Ok(handles)
}

/// Becomes root of the user namespace. It owns the new mounts, and has no privileges on the host.
fn become_root() -> Result<(), Refused> {
    let refused = || "cannot become the box's root".to_owned();
    rustix::thread::set_thread_groups(&[]).or_refuse(Primitive::IdMap, refused)?;
    let (user, group) = (Uid::ROOT, Gid::ROOT);
    rustix::thread::set_thread_res_gid(group, group, group).or_refuse(Primitive::IdMap, refused)?;
    rustix::thread::set_thread_res_uid(user, user, user).or_refuse(Primitive::IdMap, refused)
}

fn enter_root(spec: &BoxSpec, assembled: &Assembled) -> Result<Option<Compared>, Refused> {
    let staging = detached_mount::open_directory(CWD, STAGING)?;
    // Mounts a copy over the root, because the mount that root assembled is locked in this
    // namespace and cannot become the root.
    let root = detached_mount::copy(&staging, "root", 0)?;
    detached_mount::attach(&root, staging.as_fd(), "root")?;

    let hardened = WRITTEN | mount_attr::NOEXEC;
    let proc = detached_mount::new("proc", &[], hardened, Primitive::Proc)?;
    detached_mount::attach(&proc, root.as_fd(), "proc")?;
    cap_counters(&root, spec)?;
    masks::apply(&root, &staging)?;
    let most = allowances::PSEUDO_TERMINALS.to_string();
    let terminals = [
        Opt::Flag("newinstance"),
        Opt::Value("ptmxmode", "0666"),
        Opt::Value("mode", "0620"),
        Opt::Value("max", &most),
    ];
    let terminals =
        detached_mount::new("devpts", &terminals, mount_attr::NOSUID | mount_attr::NOEXEC, Primitive::Devpts)?;
    detached_mount::attach(&terminals, root.as_fd(), "dev/pts")?;
    let shared = [Opt::Value("size", SHARED_MEMORY_BYTES), Opt::Value("mode", "1777"), Opt::Value("nr_inodes", "16k")];
    detached_mount::attach(
        &detached_mount::new("tmpfs", &shared, WRITTEN, Primitive::Mount)?,
        root.as_fd(),
        "dev/shm",
    )?;
    for (from, to) in [("tmp", "tmp"), (volume::HOME, "home/agent")] {
        let lower = if from == volume::HOME { assembled.layers.home.as_slice() } else { &[] };
        if spec.volume == Volume::Directory || !lower.is_empty() {
            // A bind mount of a directory would reveal the server's path in the box's mount table.
            overlay(lower, &Upper { upper: from, work: &format!("work-{from}") }, to)?;
        } else {
            detached_mount::attach(
                &detached_mount::copy(&staging, format!("volume/{from}"), WRITTEN)?,
                root.as_fd(),
                to,
            )?;
        }
    }
    // Mount an overlay even without layers. The upper directory may become a layer of another box,
    // and the overlay prevents programs from writing overlay markers into it.
    if spec.bound.is_some() {
        detached_mount::attach(&detached_mount::copy(&staging, "bound", 0)?, root.as_fd(), "workspace")?;
        pivot(&root, spec)?;
        return Ok(None);
    }
    let upper = volume::generation(spec.generation);
    overlay(&assembled.layers.layers, &Upper { upper: &upper, work: "work" }, "workspace")?;
    let compared = assembled.layers.compared(&upper)?;
    pivot(&root, spec)?;
    Ok(compared)
}

/// Caps the resource counters of the box's user namespace, before `/proc/sys` becomes read-only.
fn cap_counters(root: &OwnedFd, spec: &BoxSpec) -> Result<(), Refused> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let counters = openat(root, "proc/sys/user", flags, Mode::empty())
        .or_refuse(Primitive::Namespaces, || "cannot open /proc/sys/user inside the box".to_owned())?;
    allowances::cap_counters(&counters, allowances::Charged::of(spec.ids))
}

/// Upper and work directory of an overlay, on the volume.
struct Upper<'a> {
    upper: &'a str,
    work: &'a str,
}

/// Mounts an overlay as the box's own root, so that the kernel acts with the box's rights on behalf
/// of the overlay.
fn overlay(lower: &[String], Upper { upper, work }: &Upper<'_>, to: &str) -> Result<(), Refused> {
    let lower = lower_option(lower);
    let options = format!("{lower},upperdir={STAGING}/volume/{upper},workdir={STAGING}/volume/{work},userxattr");
    mount_overlay(&options, &format!("root/{to}"), MountFlags::NOSUID | MountFlags::NODEV)
}

/// Returns the `lowerdir` option, with the topmost layer first. Without layers it names an empty
/// directory.
pub(super) fn lower_option(lower: &[String]) -> String {
    let mut paths: Vec<_> = lower.iter().rev().map(|layer| format!("{STAGING}/{layer}")).collect();
    if paths.is_empty() {
        paths.push(format!("{STAGING}/empty"));
    }
    format!("lowerdir={}", paths.join(":"))
}

/// Mounts an overlay below [`STAGING`].
pub(super) fn mount_overlay(options: &str, at: &str, flags: MountFlags) -> Result<(), Refused> {
    let target = Path::new(STAGING).join(at);
    let options = std::ffi::CString::new(options).unwrap_or_default();
    mount("overlay", &target, "overlay", flags, options.as_c_str())
        .or_refuse(Primitive::Overlay, || "cannot mount the workspace's layers".to_owned())
}

fn pivot(root: &impl AsFd, spec: &BoxSpec) -> Result<(), Refused> {
    let refused = || format!("cannot enter the root of box {}", spec.id);
    fchdir(root).or_refuse(Primitive::PivotRoot, refused)?;
    // Pivots onto the same directory. The old root then lies on top of the new one, and unmounting
    // it also removes the staging directory.
    pivot_root(".", ".").or_refuse(Primitive::PivotRoot, refused)?;
    unmount(".", UnmountFlags::DETACH).or_refuse(Primitive::PivotRoot, refused)?;
    rustix::process::chdir("/").or_refuse(Primitive::PivotRoot, refused)
}

/// Sets the process's own limits, which all its children inherit.
fn limit_resources(outer: &mut Outer) -> Result<(), Refused> {
    let refused = || "cannot set a resource limit".to_owned();
    let both = |value| Rlimit { current: Some(value), maximum: Some(value) };
    setrlimit(Resource::Core, both(0)).or_refuse(Primitive::Spec, refused)?;
    allowances::limit_open_files(&outer.spec)?;
    if outer.spec.ids == Ids::Own {
        allowances::limit_queues(allowances::Charged::ToASharedUser)?;
    }
    if let (Some(pids), false) = (outer.spec.limits.pids, outer.held.pids) {
        // Linux counts this per user namespace since 5.14, so it is the box's own number even if
        // the user has many processes.
        setrlimit(Resource::Nproc, both(pids)).or_refuse(Primitive::Spec, refused)?;
        outer.held.pids = getrlimit(Resource::Nproc).current == Some(pids);
    }
    Ok(())
}

/// Opens the null device, for the standard files of a program that needs none.
pub(super) fn open_null() -> io::Result<rustix::fd::OwnedFd> {
    Ok(rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty())?)
}
