//! The outer half of the builder: everything that happens on the host.

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
use super::{allowances, ids, inside, network, root};
use crate::cgroup::{Groups, Held};
use crate::error::{OrRefuse, Primitive, Refused};
use crate::init::{Door, Handles, UpperOn};
use crate::record::{OwnerRecord, ProcessMark};
use crate::spec::{BoxSpec, Ids, Network, Preparation, Volume};
use crate::sys::clone::{self, Parenthood, Side};
use crate::sys::{loopback, signals};

/// Highest priority of an ordinary scheduling class.
const INIT_PRIORITY: i32 = -20;
/// Maximum size of an order in bytes.
const MAX_ORDER: u64 = 4 << 20;

/// Report to the server: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    Ready(Held),
    Refused(Refused),
}

/// Orders for `stead-init launch`, one per line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Makes a volume before the box is known. If present, this is the first order.
    Prepare(Preparation),
    Start(Box<BoxSpec>),
}

/// `stead-init launch`: reads [`Order`]s from standard input and writes a [`Report`] to standard
/// output.
///
/// Returns an exit code in the process that was started. The box's process 1 never returns.
pub fn launch() -> i32 {
    let Ok(report) = report_file() else { return 2 };
    // Leaves the server's session, so that closing its terminal does not end the box.
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

/// Closes every file but the standard ones, which the server may have inherited too, and returns
/// the standard output as a file of its own.
pub(super) fn report_file() -> io::Result<File> {
    signals::close_from(3)?;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

pub(super) fn say(mut report: &File, what: &Report) {
    if let Ok(mut line) = serde_json::to_vec(what) {
        line.push(b'\n');
        // If the server is gone, this fails, and the box ends too because nothing manages it.
        let _ = report.write_all(&line);
    }
}

/// State of the outer half before it starts the child.
pub(super) struct Outer {
    pub(super) spec: BoxSpec,
    pub(super) handles: Handles,
    pub(super) held: Held,
    /// Volume that was made before the order came.
    ready: Option<ReadyVolume>,
    groups: Groups,
    /// The box's directory, opened by descriptor so that it stays valid when mounts change.
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
    // Root made the network already, and the child inherits it. An ordinary user makes it inside.
    let network = match (spec.network, spec.ids) {
        (Network::Captured, Ids::Range { .. }) => Some(network::furnish()?),
        _ => None,
    };
    let handles = Handles { door, cgroup, events, compared: None, upper_on, env, network };
    Ok(Outer { spec, handles, held, ready, groups, directory: (fd, path), record })
}

/// Reads the orders. Returns the box to start and the volume that was made ahead.
fn take_orders() -> Result<(BoxSpec, Option<ReadyVolume>), Refused> {
    let mut input = orders();
    let mut ready = None;
    loop {
        match read_order(&mut input)? {
            Order::Prepare(preparation) => {
                own_network()?;
                // If this fails, the start tries again and reports the reason.
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

/// Enters a new network namespace that only has loopback. If root makes it, the host owns it, and
/// even the box's own root cannot configure it.
fn own_network() -> Result<(), Refused> {
    clone::unshare(UnshareFlags::NEWNET).or_refuse(Primitive::Namespaces, || "cannot make a network".to_owned())?;
    bring_up_loopback()
}

pub(super) fn bring_up_loopback() -> Result<(), Refused> {
    loopback::bring_up().or_refuse(Primitive::Loopback, || "cannot bring up the loopback interface".to_owned())
}

/// Returns the stream of orders, limited in size.
pub(super) fn orders() -> impl BufRead {
    BufReader::new(io::stdin().take(MAX_ORDER))
}

/// Reads one order: one line of JSON.
pub(super) fn read_order<T: DeserializeOwned>(input: &mut impl BufRead) -> Result<T, Refused> {
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line).map_err(|error| refused(error.to_string()))?;
    serde_json::from_slice(&line).map_err(|error| refused(error.to_string()))
}

fn refused(reason: String) -> Refused {
    Refused { primitive: Primitive::Spec, doing: "cannot read the order".to_owned(), reason }
}

impl BoxSpec {
    /// Checks the names that become parts of paths.
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

/// Makes the namespaces. In the parent this returns once the child may continue. In the child it
/// never returns.
fn enter(mut outer: Outer, report: &File) -> Result<(), Refused> {
    let assembled = match outer.spec.ids {
        // Only root may mount an image or map a layer's ids, and the box's own user may not see the
        // server's directories. So root assembles the tree here, in a mount namespace that the host
        // does not see and that ends with the box.
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
            // If any step fails, the pipe closes without data, and the child exits without having
            // done anything.
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

/// Forks the box's process 1 into its namespaces and its cgroup v2 group.
fn start_inside(Outer { groups, spec, .. }: &Outer) -> Result<Side, Refused> {
    let refused = || "cannot make the box's namespaces".to_owned();
    let cgroup_refused = || "cannot join the box's control groups".to_owned();
    let group = groups.unified().or_refuse(Primitive::Cgroup, cgroup_refused)?;
    let namespaces = match spec.ids {
        Ids::Range { .. } => clone::BOX_NAMESPACES,
        // Only an unprivileged box makes its network here. Root made it earlier, and the child
        // inherits it.
        Ids::Own => clone::BOX_NAMESPACES | clone::NEWNET,
    };
    if matches!(spec.ids, Ids::Range { .. }) && groups.has_cpu() {
        // Within the box's own CPU share, init gets priority over its children, so that a fork bomb
        // cannot keep it from responding. Without such a group the priority would affect the host.
        let _ = rustix::process::setpriority_process(None, INIT_PRIORITY);
    }
    let start = |group| {
        let fork = || clone::into_namespaces(namespaces, Parenthood::CallersParent, group);
        allowances::charged_to_the_box(spec.ids, fork)
    };
    match start(group.as_ref()) {
        // Linux before 5.7, or a group that a process can move to but cannot start in. If both
        // fail, this call reports the reason.
        Err(_) if group.is_some() => {
            groups.join_unified().or_refuse(Primitive::Cgroup, cgroup_refused)?;
            start(None).or_refuse(Primitive::Namespaces, refused)
        }
        started => started.or_refuse(Primitive::Namespaces, refused),
    }
}

impl Outer {
    /// Returns the handles of process 1 and drops everything else.
    pub(super) fn into_handles(self) -> (Handles, Held) {
        (self.handles, self.held)
    }

    /// Assembles the tree in the child itself, for a box without root.
    pub(super) fn assemble_inside(&mut self) -> Result<root::Assembled, Refused> {
        root::make_mounts_private()?;
        self.assemble()
    }

    fn assemble(&mut self) -> Result<root::Assembled, Refused> {
        root::assemble(&self.spec, self.ready.take(), &mut self.held)
    }
}
