//! The outer half: everything that happens on the host's side of the wall.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::thread::UnshareFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::allowances::Charged;
use super::volume::ReadyVolume;
use super::{allowances, ids, inside, root};
use crate::cgroup::{Groups, Held};
use crate::error::{OrRefuse, Primitive, Refused};
use crate::init::{Door, Handles, UpperOn};
use crate::record::{OwnerRecord, ProcessMark};
use crate::spec::{BoxSpec, Ids, Preparation, Volume};
use crate::sys::clone::{self, Parenthood, Side};
use crate::sys::{loopback, signals};

/// The highest that there is for an ordinary scheduling class.
const INIT_PRIORITY: i32 = -20;
/// As long as the order for a box may be.
const MAX_ORDER: u64 = 4 << 20;

/// The one line that goes back to whoever asked for the box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    Ready(Held),
    Refused(Refused),
}

/// What `stead-init launch` is told, a line each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// To have a volume ready before it is known for which box. Comes first, or not at all.
    Prepare(Preparation),
    Start(Box<BoxSpec>),
}

/// `stead-init launch`: [`Order`]s on standard input, a [`Report`] on standard output.
///
/// Returns in the process that was started, with its exit code; the box's process 1 never returns.
pub fn launch() -> i32 {
    let report = match io::stdout().as_fd().try_clone_to_owned() {
        Ok(fd) => File::from(fd),
        Err(_) => return 2,
    };
    if signals::close_from(4).is_err() {
        return 2;
    }
    // Not of the server's session: what ends its terminal must not end the box.
    let _ = rustix::process::setsid();
    rustix::process::umask(Mode::from_raw_mode(0o022));
    match take_orders().and_then(prepare).and_then(|outer| enter(outer, &report)) {
        Ok(()) => 0,
        Err(refused) => {
            say(&report, &Report::Refused(refused));
            1
        }
    }
}

pub(super) fn say(mut report: &File, what: &Report) {
    if let Ok(mut line) = serde_json::to_vec(what) {
        line.push(b'\n');
        // Whoever asked may be gone: then the box goes too, since nobody answers for it.
        let _ = report.write_all(&line);
    }
}

/// What the outer half has made when the child is about to be.
pub(super) struct Outer {
    pub(super) spec: BoxSpec,
    pub(super) handles: Handles,
    pub(super) held: Held,
    /// A volume that was made before the order came.
    ready: Option<ReadyVolume>,
    groups: Groups,
    /// The box's directory by a name that stays right when mounts change.
    directory: (OwnedFd, PathBuf),
    record: OwnerRecord,
}

fn prepare((spec, ready): (BoxSpec, Option<ReadyVolume>)) -> Result<Outer, Refused> {
    let refuse_directory = || format!("cannot open {}", spec.directory.display());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(CWD, &spec.directory, flags, Mode::empty()).or_refuse(Primitive::Spec, refuse_directory)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));

    let mut record = OwnerRecord::new(&spec.id, &spec.instance, spec.ids);
    let groups = Groups::plan(&record.group_name())
        .or_refuse(Primitive::Cgroup, || "cannot read this host's control groups".to_owned())?;
    record.cgroups = groups.paths();
    keep(&record, &path)?;
    groups.make().or_refuse(Primitive::Cgroup, || "cannot make the box's control groups".to_owned())?;
    groups.join().or_refuse(Primitive::Cgroup, || "cannot join the box's control groups".to_owned())?;
    let held = groups.limit(&spec.limits);
    let cgroup_refused = || "cannot hand the box its control group".to_owned();
    let cgroup = groups.delegate(spec.agent_on_host()).or_refuse(Primitive::Cgroup, cgroup_refused)?;
    let events = groups.events().or_refuse(Primitive::Cgroup, cgroup_refused)?;
    let listener = UnixListener::bind(path.join("control.sock"))
        .or_refuse(Primitive::ControlSocket, || "cannot bind the control socket".to_owned())?;
    let upper_on = match spec.volume {
        Volume::Directory => UpperOn::Host,
        Volume::Image | Volume::Memory => UpperOn::Volume,
    };
    let (door, env) = (Door::Listener(listener), spec.env.clone());
    let handles = Handles { door, cgroup, events, compared: None, upper_on, env };
    Ok(Outer { spec, handles, held, ready, groups, directory: (fd, path), record })
}

/// The box to start, and what was made for it ahead.
fn take_orders() -> Result<(BoxSpec, Option<ReadyVolume>), Refused> {
    let mut input = orders();
    let mut ready = None;
    loop {
        match read_order(&mut input)? {
            Order::Prepare(preparation) => {
                own_network()?;
                // If it cannot be made now, the start tries it again, and says why not.
                ready = ReadyVolume::make(preparation).ok();
            }
            Order::Start(spec) => {
                spec.check()?;
                if ready.is_none() && matches!(spec.ids, Ids::Range { .. }) {
                    own_network()?;
                }
                return Ok((*spec, ready));
            }
        }
    }
}

/// Enters a network that is nobody's else, with nothing in it but itself. Made by root it is the host's to configure, and not even the box's own root may.
fn own_network() -> Result<(), Refused> {
    clone::unshare(UnshareFlags::NEWNET).or_refuse(Primitive::Namespaces, || "cannot make a network".to_owned())?;
    bring_up_loopback()
}

pub(super) fn bring_up_loopback() -> Result<(), Refused> {
    loopback::bring_up().or_refuse(Primitive::Loopback, || "cannot bring up the loopback interface".to_owned())
}

/// Where orders come from.
pub(super) fn orders() -> impl BufRead {
    BufReader::new(io::stdin().take(MAX_ORDER))
}

/// One line.
pub(super) fn read_order<T: DeserializeOwned>(input: &mut impl BufRead) -> Result<T, Refused> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line).map_err(|error| refused(error.to_string()))?;
    serde_json::from_slice(&line).map_err(|error| refused(error.to_string()))
}

fn refused(reason: String) -> Refused {
    Refused { primitive: Primitive::Spec, doing: "cannot read the order".to_owned(), reason }
}

impl BoxSpec {
    /// Only what may become a part of a path.
    pub(super) fn check(&self) -> Result<(), Refused> {
        if !Self::name_is_plain(&self.id) || !Self::name_is_plain(&self.instance) {
            return Err(refused("id and instance take letters, digits, '_' and '-'".to_owned()));
        }
        Ok(())
    }
}

fn keep(record: &OwnerRecord, directory: &std::path::Path) -> Result<(), Refused> {
    record.write(directory).or_refuse(Primitive::Record, || "cannot write the owner record".to_owned())
}

/// Makes the namespaces. In the parent it returns once the child may go on; in the child it does not return.
fn enter(mut outer: Outer, report: &File) -> Result<(), Refused> {
    let assembled = match outer.spec.ids {
        // Only root may mount an image or map a layer's ids, and the box's own user may not see the server's directories: so the
        // tree is put together here, in a mount namespace that the host does not see and that ends with the box.
        Ids::Range { .. } => {
            clone::unshare(UnshareFlags::NEWNS)
                .or_refuse(Primitive::Namespaces, || "cannot make a mount namespace".to_owned())?;
            root::make_mounts_private()?;
            let assembled = outer.assemble()?;
            allowances::limit_queues(Charged::ToTheBox)?;
            Some(assembled)
        }
        Ids::Own => None,
    };
    let (wait, release) = io::pipe().or_refuse(Primitive::Namespaces, || "cannot make a pipe".to_owned())?;
    let side = start_inside(&outer)?;
    match side {
        Side::Parent(pid) => {
            // If anything here fails the pipe closes unwritten, and the child ends without having done anything.
            ids::map(pid, outer.spec.ids)?;
            outer.record.init = Some(
                ProcessMark::of(pid)
                    .or_refuse(Primitive::Record, || "cannot mark the box's first process".to_owned())?,
            );
            keep(&outer.record, &outer.directory.1)?;
            let mut release = release;
            release.write_all(&[1]).or_refuse(Primitive::Namespaces, || "the box's first process is gone".to_owned())
        }
        Side::Child => {
            drop(release);
            let mut byte = [0];
            let mut wait = wait;
            if !matches!(wait.read(&mut byte), Ok(1)) {
                clone::leave(1);
            }
            drop(wait);
            inside::run(outer, assembled, report)
        }
    }
}

/// Forks the box's first process into its namespaces and its group of version 2.
fn start_inside(Outer { groups, spec, .. }: &Outer) -> Result<Side, Refused> {
    let refused = || "cannot make the box's namespaces".to_owned();
    let cgroup_refused = || "cannot join the box's control groups".to_owned();
    let group = groups.unified().or_refuse(Primitive::Cgroup, cgroup_refused)?;
    let namespaces = match spec.ids {
        Ids::Range { .. } => clone::BOX_NAMESPACES,
        // Only here: what root has made ahead the child has already.
        Ids::Own => clone::BOX_NAMESPACES | clone::NEWNET,
    };
    if matches!(spec.ids, Ids::Range { .. }) && groups.has_cpu() {
        // Inside the box's own share of the processors init goes before what it starts, so that a fork bomb does not keep it
        // from answering. Outside of such a group the priority would count against the host.
        let _ = rustix::process::setpriority_process(None, INIT_PRIORITY);
    }
    let start = |group| {
        let fork = || clone::into_namespaces(namespaces, Parenthood::CallersParent, group);
        allowances::charged_to_the_box(spec.ids, fork)
    };
    match start(group.as_ref()) {
        // Linux before 5.7, or a group that a process may be moved to and not be started in: if neither can be, this says why.
        Err(_) if group.is_some() => {
            groups.join_unified().or_refuse(Primitive::Cgroup, cgroup_refused)?;
            start(None).or_refuse(Primitive::Namespaces, refused)
        }
        started => started.or_refuse(Primitive::Namespaces, refused),
    }
}

impl Outer {
    /// Lets go of everything else.
    pub(super) fn into_handles(self) -> (Handles, Held) {
        (self.handles, self.held)
    }

    /// Splits off what the child needs, for a child that has to put the tree together itself.
    pub(super) fn assemble_inside(&mut self) -> Result<root::Assembled, Refused> {
        root::make_mounts_private()?;
        self.assemble()
    }

    fn assemble(&mut self) -> Result<root::Assembled, Refused> {
        root::assemble(&self.spec, self.ready.take(), &mut self.held)
    }
}
