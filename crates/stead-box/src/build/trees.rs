//! `stead-init tree`: the files of a box that a container runtime builds, put together as for any other box.
//!
//! One single-threaded program: the layers and the volume meet in a mount namespace that nobody else sees, and what is made of them goes either
//! straight into the mount namespace of the box, where it ends with the box, or below a directory of the host's, for a
//! box whose kernel is not this one. Whoever asked for it is waited for by the kernel: if it dies, this dies.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use serde::{Deserialize, Serialize};

use super::allowances::{self, Charged};
use super::inside::{lower_option, mount_overlay};
use super::launch::{Report, orders, read_order, say};
use super::root::{STAGING, make_directory, make_mounts_private};
use super::tree::{self, Opt, SHOWN, WRITTEN};
use super::{layers, volume};
use crate::cgroup::Held;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::init::Compared;
use crate::record::ProcessMark;
use crate::spec::{BoxSpec, HOME, WORKSPACE};
use crate::sys::{clone, signals};

/// Where the box has what a diff looks at.
pub const TREES: &str = "/.stead/trees";
/// Names below it.
const BEFORE: &str = "before";
const UPPER: &str = "upper";
const SINCE: &str = "since";
/// What goes where: a name below [`STAGING`], or on the host; and the path in the box.
pub const PLACES: &[(&str, &str)] =
    &[("workspace", WORKSPACE), ("home", HOME), ("tmp", "/tmp"), ("tmp", "/var/tmp"), ("trees", TREES)];
/// Below the box's directory, where its files are on the host's side.
pub const ON_THE_HOST: &str = "mnt";

/// What is asked of `stead-init tree`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeOrder {
    /// Its layers, its volume and its ids are what counts.
    pub spec: BoxSpec,
    pub to: TreeTo,
}

/// Where the files go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeTo {
    /// Over the empty directories of a box that has just been made and has run nothing.
    NewBox(ProcessMark),
    /// Into a box that has files already, and nothing at work in them: these give way.
    WaitingBox(ProcessMark),
    /// Below the box's directory, where a runtime takes them from.
    Host,
    /// Nowhere, since the box has its files: only what the kernel counts in its user namespace gets its limits.
    Counted(ProcessMark),
    /// Nowhere: whether it can be done is all there is to know.
    Nowhere,
}

/// A [`TreeOrder`] on standard input, a [`Report`] on standard output.
pub fn tree() -> i32 {
    let report = match io::stdout().as_fd().try_clone_to_owned() {
        Ok(fd) => File::from(fd),
        Err(_) => return 2,
    };
    match prepare().and_then(lay) {
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

fn prepare() -> Result<TreeOrder, Refused> {
    let refused = || "cannot be tied to who asked".to_owned();
    signals::close_from(4).or_refuse(Primitive::Spec, refused)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).or_refuse(Primitive::Spec, refused)?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let order: TreeOrder = read_order(&mut orders())?;
    order.spec.check()?;
    // Who asked holds the other end until it is answered. If it died before the kernel was told, it is hung up.
    let input = io::stdin();
    let mut hung_up = [PollFd::new(&input, PollFlags::HUP)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut hung_up, Some(&now)).or_refuse(Primitive::Spec, refused)? > 0 {
        return Err(io::Error::from(io::ErrorKind::BrokenPipe)).or_refuse(Primitive::Spec, refused);
    }
    Ok(order)
}

fn lay(order: TreeOrder) -> Result<Held, Refused> {
    let TreeOrder { spec, to } = order;
    let counters = tree::open_directory(CWD, "/proc/sys/user")?;
    let host = namespace("self", "mnt")?;
    let (target, users) = match &to {
        TreeTo::NewBox(init) | TreeTo::WaitingBox(init) => {
            (Some(namespace_of(init, "mnt")?), Some(namespace_of(init, "user")?))
        }
        TreeTo::Counted(init) => {
            cap_counters(&counters, &namespace_of(init, "user")?)?;
            return Ok(Held::default());
        }
        TreeTo::Host | TreeTo::Nowhere => (None, None),
    };
    if let (TreeTo::WaitingBox(_), Some(target)) = (&to, &target) {
        // First: what was written last may be below what is written next.
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
        (TreeTo::Host, _) => {
            enter(&host)?;
            put_on_the_host(&spec.directory, &mounts)?;
        }
        (_, Some(target)) => {
            enter(target)?;
            for ((_, path), mount) in PLACES.iter().zip(&mounts) {
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

/// Enters the box's user namespace and sets its limits: the last thing to do, since it gives up every right on the host. It
/// fails, and writes nothing, if the namespace is the host's.
fn cap_counters(counters: &OwnedFd, users: &OwnedFd) -> Result<(), Refused> {
    move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User))
        .or_refuse(Primitive::Namespaces, || "cannot enter the box's user namespace".to_owned())?;
    allowances::cap_counters(counters, Charged::ToASharedUser)
}

/// One detached mount for each of [`PLACES`].
fn stage(spec: &BoxSpec, to: &TreeTo, held: &mut Held) -> Result<Vec<OwnedFd>, Refused> {
    let volume = volume::make(spec, None, held)?;
    let sources = layers::open(spec)?;
    let staging = tree::new("tmpfs", &[Opt::Value("mode", "0755")], WRITTEN, Primitive::Mount)?;
    for name in ["volume", "empty", "base", "workspace", "trees"] {
        make_directory(&staging, name)?;
    }
    tree::attach(&staging, tree::open_directory(CWD, STAGING)?.as_fd(), "")?;
    tree::attach(&volume, staging.as_fd(), "volume")?;
    let staged = sources.stage(spec, &staging)?;
    let upper = volume::generation(spec.generation);
    // An overlay also where there is nothing below: through it nobody can write into a layer to be what an overlay takes for its own marks.
    let below = lower_option(&staged.layers);
    let options = format!("{below},upperdir={STAGING}/volume/{upper},workdir={STAGING}/volume/work,userxattr");
    mount_overlay(&options, "workspace", MountFlags::NOSUID | MountFlags::NODEV)?;
    let trees = tree::new("tmpfs", &[Opt::Value("mode", "0755")], WRITTEN, Primitive::Mount)?;
    tree::attach(&trees, staging.as_fd(), "trees")?;
    if let Some(compared) = staged.compared(&upper)? {
        show(&compared, &trees, to)?;
    }
    PLACES
        .iter()
        .map(|(name, _)| match *name {
            "trees" => tree::copy(&staging, name, SHOWN),
            "workspace" => tree::copy(&staging, name, WRITTEN),
            name => tree::copy(&staging, Path::new("volume").join(name), WRITTEN),
        })
        .collect()
}

/// What a diff looks at, for the box to read: it is nothing but what the agent began with and what it wrote.
fn show(compared: &Compared, trees: &OwnedFd, to: &TreeTo) -> Result<(), Refused> {
    let place = |fd: &OwnedFd, name: &str| {
        make_directory(trees, name)?;
        tree::attach(&tree::copy(fd, ".", SHOWN)?, trees.as_fd(), name)
    };
    place(&compared.before, BEFORE)?;
    place(&compared.upper, UPPER)?;
    // Marks of an overlay are read as they are on this kernel alone.
    if let Some(written) = compared.written.as_ref().filter(|_| *to != TreeTo::Host) {
        make_directory(trees, SINCE)?;
        for (number, fd) in written.iter().enumerate() {
            place(fd, &format!("{SINCE}/{number}"))?;
        }
    }
    Ok(())
}

impl Compared {
    /// In the box: what was put beside its workspace, if anything was.
    pub(crate) fn beside() -> Option<Self> {
        let trees = tree::open_directory(CWD, TREES).ok()?;
        let (before, upper) = (tree::open_directory(&trees, BEFORE).ok()?, tree::open_directory(&trees, UPPER).ok()?);
        let written = tree::open_directory(&trees, SINCE).ok().map(|since| {
            (0..).map_while(|number: u32| tree::open_directory(&since, number.to_string()).ok()).collect()
        });
        Some(Self { before, written, upper })
    }
}

fn namespace(process: &str, kind: &str) -> Result<OwnedFd, Refused> {
    let refused = || format!("cannot find a namespace of kind {kind}");
    Ok(File::open(format!("/proc/{process}/ns/{kind}")).or_refuse(Primitive::Namespaces, refused)?.into())
}

/// The box's, if its first process still is the one that was marked: looked at after the namespace was opened, so it is its.
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

/// In the box: takes off what an earlier order put there. The namespace is the box's, so nothing else can be meant by these paths.
fn uncover() -> Result<(), Refused> {
    for (_, path) in PLACES {
        match unmount(*path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            done => done.or_refuse(Primitive::Mount, || format!("cannot take off {path}"))?,
        }
    }
    Ok(())
}

/// In the box: puts it over a path, and makes sure that the path means it now.
fn cover(mount: &OwnedFd, path: &str) -> Result<(), Refused> {
    tree::attach(mount, CWD, path)?;
    let refused = || format!("cannot put the box's files at {path}");
    let found = rustix::fs::stat(path).or_refuse(Primitive::Mount, refused)?;
    let meant = rustix::fs::fstat(mount).or_refuse(Primitive::Mount, refused)?;
    let same = (found.st_dev, found.st_ino) == (meant.st_dev, meant.st_ino);
    same.then_some(()).ok_or(rustix::io::Errno::XDEV).or_refuse(Primitive::Mount, refused)
}

/// Every mount namespace that is made from now on gets a copy. Below a shared mount, taking it off here takes off the copies too: without that
/// one box would hold the files of all that were there when it was made.
fn put_on_the_host(directory: &Path, mounts: &[OwnedFd]) -> Result<(), Refused> {
    let target: PathBuf = directory.join(ON_THE_HOST);
    let refused = || "cannot put the box's files below its directory".to_owned();
    for (name, _) in PLACES {
        fs::create_dir_all(target.join(name)).or_refuse(Primitive::Mount, refused)?;
    }
    mount_bind(&target, &target).or_refuse(Primitive::Mount, refused)?;
    mount_change(&target, MountPropagationFlags::SHARED).or_refuse(Primitive::Mount, refused)?;
    let mut done: Vec<&str> = Vec::new();
    for ((name, _), mount) in PLACES.iter().zip(mounts) {
        if !done.contains(name) {
            tree::attach(mount, CWD, target.join(name))?;
            done.push(name);
        }
    }
    Ok(())
}
