//! The outer half: everything that happens on the host's side of the wall.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::thread::UnshareFlags;
use serde::{Deserialize, Serialize};

use super::cradle::{Cradle, CradleSpec};
use super::{ids, inside, root};
use crate::cgroup::Held;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::init::{Door, Handles};
use crate::record::{OwnerRecord, ProcessMark};
use crate::spec::{BoxSpec, Ids};
use crate::sys::clone::{self, Parenthood, Side};
use crate::sys::signals;

/// As long as all orders to one box together may be.
const MAX_ORDERS: u64 = 4 << 20;

/// The one line that goes back to whoever asked for the box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The cradle is there, and waits for its box.
    Waiting,
    Ready(Held),
    Refused(Refused),
}

/// One line that comes in: a cradle and then a box, or a box alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Cradle(CradleSpec),
    Box(Box<BoxSpec>),
}

/// `stead-init launch`: each [`Order`] on standard input, its [`Report`] on standard output.
///
/// Returns in the process that was started, with its exit code; the box's process 1 never returns.
pub fn launch() -> i32 {
    let report = match io::stdout().as_fd().try_clone_to_owned() {
        Ok(fd) => File::from(fd),
        Err(_) => return 2,
    };
    let refused = match await_box(&report) {
        Ok(Some((spec, cradle))) => match prepare(spec, cradle).and_then(|outer| enter(outer, &report)) {
            Ok(()) => return 0,
            Err(refused) => refused,
        },
        Ok(None) => return 0,
        Err(refused) => refused,
    };
    say(&report, &Report::Refused(refused));
    1
}

/// What the box is to be, and what was made ahead of it. `None` if no box is wanted.
fn await_box(report: &File) -> Result<Option<(BoxSpec, Option<Cradle>)>, Refused> {
    signals::close_from(4).or_refuse(Primitive::Spec, || "cannot close inherited files".to_owned())?;
    // Not of the server's session: what ends its terminal must not end the box.
    let _ = rustix::process::setsid();
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let mut orders = BufReader::new(io::stdin().take(MAX_ORDERS));
    let cradle = match read_order(&mut orders)? {
        Some(Order::Cradle(spec)) => Cradle::ahead(&spec)?,
        Some(Order::Box(spec)) => return Ok(Some((*spec, None))),
        None => return Ok(None),
    };
    say(report, &Report::Waiting);
    match read_order(&mut orders) {
        Ok(Some(Order::Box(spec))) => Ok(Some((*spec, Some(cradle)))),
        Ok(_) => {
            cradle.abandon();
            Ok(None)
        }
        Err(refused) => {
            cradle.abandon();
            Err(refused)
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
    /// The box's directory by a name that stays right when mounts change.
    directory: (OwnedFd, PathBuf),
    record: OwnerRecord,
}

fn prepare(spec: BoxSpec, cradle: Option<Cradle>) -> Result<Outer, Refused> {
    let refuse_directory = || format!("cannot open {}", spec.directory.display());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(CWD, &spec.directory, flags, Mode::empty()).or_refuse(Primitive::Spec, refuse_directory)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));

    let mut cradle = match cradle {
        Some(cradle) => cradle,
        None => Cradle::with(&spec, &path)?,
    };
    let record = cradle.give(&spec, &path)?;
    let groups = cradle.groups;
    let held = groups.limit(&spec.limits);
    let cgroup_refused = || "cannot hand the box its control group".to_owned();
    let cgroup = groups.delegate(spec.agent_on_host()).or_refuse(Primitive::Cgroup, cgroup_refused)?;
    let memory_events = groups.memory_events().or_refuse(Primitive::Cgroup, cgroup_refused)?;
    let listener = UnixListener::bind(path.join("control.sock"))
        .or_refuse(Primitive::ControlSocket, || "cannot bind the control socket".to_owned())?;
    let handles =
        Handles { door: Door::Listener(listener), cgroup, memory_events, compared: None, env: spec.env.clone() };
    Ok(Outer { spec, handles, held, directory: (fd, path), record })
}

/// The next order; `None` if there is none to come.
fn read_order(orders: &mut impl BufRead) -> Result<Option<Order>, Refused> {
    let refused =
        |reason: String| Refused { primitive: Primitive::Spec, doing: "cannot read the order".to_owned(), reason };
    let mut line = Vec::new();
    orders.read_until(b'\n', &mut line).map_err(|error| refused(error.to_string()))?;
    if line.is_empty() {
        return Ok(None);
    }
    let order: Order = serde_json::from_slice(&line).map_err(|error| refused(error.to_string()))?;
    let (id, instance) = match &order {
        Order::Cradle(spec) => (&spec.id, &spec.instance),
        Order::Box(spec) => (&spec.id, &spec.instance),
    };
    if !BoxSpec::name_is_plain(id) || !BoxSpec::name_is_plain(instance) {
        return Err(refused("id and instance take letters, digits, '_' and '-'".to_owned()));
    }
    Ok(Some(order))
}

pub(super) fn keep(record: &OwnerRecord, directory: &std::path::Path) -> Result<(), Refused> {
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
            Some(root::assemble(&outer.spec, &mut outer.held)?)
        }
        Ids::Own => None,
    };
    let (wait, release) = io::pipe().or_refuse(Primitive::Namespaces, || "cannot make a pipe".to_owned())?;
    let side = clone::into_namespaces(clone::BOX_NAMESPACES, Parenthood::CallersParent)
        .or_refuse(Primitive::Namespaces, || "cannot make the box's namespaces".to_owned())?;
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

impl Outer {
    /// Lets go of everything else.
    pub(super) fn into_handles(self) -> (Handles, Held) {
        (self.handles, self.held)
    }

    /// Splits off what the child needs, for a child that has to put the tree together itself.
    pub(super) fn assemble_inside(&mut self) -> Result<root::Assembled, Refused> {
        root::make_mounts_private()?;
        root::assemble(&self.spec, &mut self.held)
    }
}
