//! `stead-init tree`: assembles the files of a box that a container runtime builds.
//!
//! It is a single-threaded program. It mounts the layers and the volume in a private mount
//! namespace. Then it moves the result into the mount namespace of the box, where it ends with the
//! box, or below a host directory, for a box with another kernel. If the server dies, the kernel
//! kills this process.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::allowances::{self, Charged};
use super::detached_mount::{self, Opt, SHOWN, WRITTEN};
use super::inside::{lower_option, mount_overlay};
use super::launch::{Report, orders, read_order, report_file, say};
use super::root::{STAGING, make_directory, make_mounts_private};
use super::{layers, volume};
use crate::cgroup::Held;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::init::Compared;
use crate::record::ProcessMark;
use crate::spec::{BoxSpec, HOME, WORKSPACE};
use crate::sys::clone;

/// Path in the box of the trees that a diff compares.
pub const COMPARED_TREES: &str = "/.stead/trees";
/// Names below [`COMPARED_TREES`].
const BEFORE: &str = "before";
const UPPER: &str = "upper";
const SINCE: &str = "since";
/// Mounts of a box: the name below [`STAGING`] or on the host, and the path in the box.
pub const CONTAINER_MOUNTS: &[(&str, &str)] =
    &[("workspace", WORKSPACE), ("home", HOME), ("tmp", "/tmp"), ("tmp", "/var/tmp"), ("trees", COMPARED_TREES)];
/// Directory below the box's directory that holds its files on the host.
pub const HOST_MOUNTS: &str = "mnt";

/// An order for `stead-init tree`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerMountOrder {
    /// Only its layers, its volume and its ids are used.
    pub spec: BoxSpec,
    pub to: MountTarget,
}

/// Destination of the files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountTarget {
    /// Over the empty directories of a new box that has not run any program.
    NewBox(ProcessMark),
    /// Into a box whose files are not in use. They are replaced.
    WaitingBox(ProcessMark),
    /// Below the box's directory, from where a runtime mounts them.
    Host,
    /// Nowhere, because the box has its files. This only limits the counters of its user namespace.
    Counted(ProcessMark),
    /// Nowhere. This only tests whether it works.
    Nowhere,
}

/// Reads a [`ContainerMountOrder`] from standard input and writes a [`Report`] to standard output.
pub fn mount_container() -> i32 {
    let Ok(report) = report_file() else { return 2 };
    match order_of_a_living_server().and_then(mount) {
        Ok(held) => {
            say(&report, &Report::Ready(held));
            0
        }
        Err(refused) => {
            say(&report, &Report::Refused(refused));
            1
        }
    }
}

/// Reads the order of a helper, which the kernel kills if the server dies.
pub(super) fn order_of_a_living_server<T: DeserializeOwned>() -> Result<T, Refused> {
    let refused = || "cannot be tied to who asked".to_owned();
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).or_refuse(Primitive::Spec, refused)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let order = read_order(&mut orders())?;
    // The server keeps its end of the pipe open until it has the report. This detects a server that
    // died before the death signal was set.
    let input = io::stdin();
    let mut hung_up = [PollFd::new(&input, PollFlags::HUP)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut hung_up, Some(&now)).or_refuse(Primitive::Spec, refused)? > 0 {
        return Err(io::Error::from(io::ErrorKind::BrokenPipe)).or_refuse(Primitive::Spec, refused);
    }
    Ok(order)
}

fn mount(order: ContainerMountOrder) -> Result<Held, Refused> {
    let ContainerMountOrder { spec, to } = order;
    spec.check()?;
    let counters = detached_mount::open_directory(CWD, "/proc/sys/user")?;
    let host = namespace("self", "mnt")?;
    let (target, users) = match &to {
        MountTarget::NewBox(init) | MountTarget::WaitingBox(init) => {
            (Some(namespace_of(init, "mnt")?), Some(namespace_of(init, "user")?))
        }
        MountTarget::Counted(init) => {
            cap_counters(&counters, &namespace_of(init, "user")?)?;
            return Ok(Held::default());
        }
        MountTarget::Host | MountTarget::Nowhere => (None, None),
    };
    if let (MountTarget::WaitingBox(_), Some(target)) = (&to, &target) {
        // Unmount first, because the last upper directory may become a layer of the next.
        enter(target)?;
        uncover()?;
        enter(&host)?;
    }
    clone::unshare(UnshareFlags::NEWNS)
        .or_refuse(Primitive::Namespaces, || "cannot make a mount namespace".to_owned())?;
    make_mounts_private()?;
    let mut held = Held::default();
    let mounts = stage(&spec, &to, &mut held)?;
    match (&to, &target) {
        (MountTarget::Host, _) => {
            enter(&host)?;
            put_on_the_host(&spec.directory, &mounts)?;
        }
        (_, Some(target)) => {
            enter(target)?;
            for ((_, path), mount) in CONTAINER_MOUNTS.iter().zip(&mounts) {
                cover(mount, path)?;
            }
        }
        (_, None) => {}
    }
    if let Some(users) = users {
        cap_counters(&counters, &users)?;
    }
    Ok(held)
}

/// Enters the box's user namespace and limits its counters. This is the last step, because it gives
/// up all rights on the host. If the namespace is the host's, this fails and writes nothing.
fn cap_counters(counters: &OwnedFd, users: &OwnedFd) -> Result<(), Refused> {
    move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User))
        .or_refuse(Primitive::Namespaces, || "cannot enter the box's user namespace".to_owned())?;
    allowances::cap_counters(counters, Charged::ToASharedUser)
}

/// Returns one detached mount for each of [`CONTAINER_MOUNTS`].
fn stage(spec: &BoxSpec, to: &MountTarget, held: &mut Held) -> Result<Vec<OwnedFd>, Refused> {
    let volume = volume::make(spec, None, held)?;
    let sources = layers::open(spec)?;
    let staging = detached_mount::new("tmpfs", &[Opt::Value("mode", "0755")], WRITTEN, Primitive::Mount)?;
    for name in ["volume", "empty", "base", "workspace", volume::HOME, "trees"] {
        make_directory(&staging, name)?;
    }
    detached_mount::attach(&staging, detached_mount::open_directory(CWD, STAGING)?.as_fd(), "")?;
    detached_mount::attach(&volume, staging.as_fd(), "volume")?;
    let staged = sources.stage(spec, &staging)?;
    let upper = volume::generation(spec.generation);
    // Mount an overlay even without layers. It prevents programs from writing overlay markers into
    // a directory that may become a layer.
    let below = lower_option(&staged.layers);
    let options = format!("{below},upperdir={STAGING}/volume/{upper},workdir={STAGING}/volume/work,userxattr");
    mount_overlay(&options, "workspace", MountFlags::NOSUID | MountFlags::NODEV)?;
    if !staged.home.is_empty() {
        let below = lower_option(&staged.home);
        let options = format!("{below},upperdir={STAGING}/volume/home,workdir={STAGING}/volume/work-home,userxattr");
        mount_overlay(&options, volume::HOME, MountFlags::NOSUID | MountFlags::NODEV)?;
    }
    let trees = detached_mount::new("tmpfs", &[Opt::Value("mode", "0755")], WRITTEN, Primitive::Mount)?;
    detached_mount::attach(&trees, staging.as_fd(), "trees")?;
    if let Some(compared) = staged.compared(&upper)? {
        show(&compared, &trees, to)?;
    }
    CONTAINER_MOUNTS
        .iter()
        .map(|(name, _)| match *name {
            "trees" => detached_mount::copy(&staging, name, SHOWN),
            "workspace" => detached_mount::copy(&staging, name, WRITTEN),
            volume::HOME if !staged.home.is_empty() => detached_mount::copy(&staging, name, WRITTEN),
            name => detached_mount::copy(&staging, Path::new("volume").join(name), WRITTEN),
        })
        .collect()
}

/// Mounts the trees that a diff compares, so that the box can read them. They only contain the
/// agent's original and written files.
fn show(compared: &Compared, trees: &OwnedFd, to: &MountTarget) -> Result<(), Refused> {
    let attach = |fd: &OwnedFd, name: &str| {
        make_directory(trees, name)?;
        detached_mount::attach(&detached_mount::copy(fd, ".", SHOWN)?, trees.as_fd(), name)
    };
    attach(&compared.before, BEFORE)?;
    attach(&compared.upper, UPPER)?;
    // Only this kernel can read the overlay markers correctly.
    if let Some(written) = compared.written.as_ref().filter(|_| *to != MountTarget::Host) {
        make_directory(trees, SINCE)?;
        for (number, fd) in written.iter().enumerate() {
            attach(fd, &format!("{SINCE}/{number}"))?;
        }
    }
    Ok(())
}

impl Compared {
    /// In the box: opens the trees that a diff compares, if they are mounted.
    pub(crate) fn mounted() -> Option<Self> {
        let trees = detached_mount::open_directory(CWD, COMPARED_TREES).ok()?;
        let (before, upper) =
            (detached_mount::open_directory(&trees, BEFORE).ok()?, detached_mount::open_directory(&trees, UPPER).ok()?);
        let written = detached_mount::open_directory(&trees, SINCE).ok().map(|since| {
            (0..).map_while(|number: u32| detached_mount::open_directory(&since, number.to_string()).ok()).collect()
        });
        Some(Self { before, written, upper })
    }
}

fn namespace(process: &str, kind: &str) -> Result<OwnedFd, Refused> {
    let refused = || format!("cannot find a namespace of kind {kind}");
    Ok(File::open(format!("/proc/{process}/ns/{kind}")).or_refuse(Primitive::Namespaces, refused)?.into())
}

/// Opens a namespace of the box. It checks the process mark after opening the namespace, so the
/// namespace belongs to the marked process.
fn namespace_of(init: &ProcessMark, kind: &str) -> Result<OwnedFd, Refused> {
    let refused = || "cannot find the box".to_owned();
    let namespace = namespace(&init.pid.to_string(), kind)?;
    let alive = init.alive().or_refuse(Primitive::Namespaces, refused)?;
    alive.ok_or(rustix::io::Errno::SRCH).or_refuse(Primitive::Namespaces, refused)?;
    Ok(namespace)
}

fn enter(namespace: &OwnedFd) -> Result<(), Refused> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Mount))
        .or_refuse(Primitive::Namespaces, || "cannot enter a mount namespace".to_owned())
}

/// In the box: unmounts the files of an earlier order. The mount namespace is the box's, so these
/// paths cannot refer to anything else.
fn uncover() -> Result<(), Refused> {
    for (_, path) in CONTAINER_MOUNTS {
        match unmount(*path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            done => done.or_refuse(Primitive::Mount, || format!("cannot take off {path}"))?,
        }
    }
    Ok(())
}

/// In the box: mounts over a path, and verifies that the path now refers to the mount.
fn cover(mount: &OwnedFd, path: &str) -> Result<(), Refused> {
    detached_mount::attach(mount, CWD, path)?;
    let refused = || format!("cannot put the box's files at {path}");
    let found = rustix::fs::stat(path).or_refuse(Primitive::Mount, refused)?;
    let meant = rustix::fs::fstat(mount).or_refuse(Primitive::Mount, refused)?;
    let same = (found.st_dev, found.st_ino) == (meant.st_dev, meant.st_ino);
    same.then_some(()).ok_or(rustix::io::Errno::XDEV).or_refuse(Primitive::Mount, refused)
}

/// Mounts the files below a host directory. Every new mount namespace gets a copy of these mounts.
/// Below a shared mount, unmounting here also unmounts the copies. Otherwise one box would hold the
/// files of all boxes that existed when it was made.
fn put_on_the_host(directory: &Path, mounts: &[OwnedFd]) -> Result<(), Refused> {
    let target: PathBuf = directory.join(HOST_MOUNTS);
    let refused = || "cannot put the box's files below its directory".to_owned();
    for (name, _) in CONTAINER_MOUNTS {
        fs::create_dir_all(target.join(name)).or_refuse(Primitive::Mount, refused)?;
    }
    mount_bind(&target, &target).or_refuse(Primitive::Mount, refused)?;
    mount_change(&target, MountPropagationFlags::SHARED).or_refuse(Primitive::Mount, refused)?;
    let mut done: Vec<&str> = Vec::new();
    for ((name, _), mount) in CONTAINER_MOUNTS.iter().zip(mounts) {
        if !done.contains(name) {
            detached_mount::attach(mount, CWD, target.join(name))?;
            done.push(name);
        }
    }
    Ok(())
}
