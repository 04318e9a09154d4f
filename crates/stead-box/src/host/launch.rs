//! Starts boxes, and finds boxes that were started before.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid};

use super::builder::{Builder, Work};
use super::client::Connection;
use super::gate::bind_limits;
use super::remove::{end, remove};
use super::spare::Spare;
use crate::build::{Order, Report};
use crate::cgroup::Held;
use crate::error::{At, BoxError};
use crate::record::OwnerRecord;
use crate::spec::{BoxSpec, Limits, Volume};

pub(super) const HELD_FILE: &str = "held.json";

/// A box whose process 1 was alive when this value was created.
#[derive(Debug, Clone)]
pub struct RunningBox {
    directory: PathBuf,
    held: Held,
}

/// Starts a box. On an error it removes everything again.
///
/// `init` is the `stead-init` program. The box's process 1 becomes a child of the caller.
/// [`RunningBox::kill`] and [`remove`] reap it.
pub fn launch(init: &Path, spec: &BoxSpec) -> Result<RunningBox, BoxError> {
    match DirBuilder::new().mode(0o700).create(&spec.directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BoxError::Exists { id: spec.id.clone(), directory: spec.directory.clone() });
        }
        made => made.at("make", &spec.directory)?,
    }
    start(Builder::spawn(init, Work::Launch)?, spec).inspect_err(|_| {
        // Leftovers are found again by their directory.
        let _ = remove(&spec.directory);
    })
}

/// Starts a box again with the files of an earlier one, after its processes have ended or the host
/// has restarted. It first kills remaining processes of the earlier box. The ids must be the same,
/// because the files belong to them.
pub fn restart(init: &Path, spec: &BoxSpec) -> Result<RunningBox, BoxError> {
    let kept = match spec.volume {
        Volume::Image => spec.volume_directory.join("volume.img").exists(),
        Volume::Directory => spec.volume_directory.join("volume").exists(),
        Volume::Memory => false,
    };
    if !kept {
        return Err(BoxError::Gone { reason: "its files are not there" });
    }
    resume(init, spec, None)
}

/// Starts a box in an existing directory, with a spare if there is one. It first kills remaining
/// processes of an earlier box. If the start fails, the files stay.
pub fn resume(init: &Path, spec: &BoxSpec, spare: Option<Spare>) -> Result<RunningBox, BoxError> {
    // Unlike the first start, a failure removes nothing, because the files contain the agent's
    // work.
    clear(spec)?;
    if let Some(builder) = spare.and_then(Spare::into_builder) {
        match start(builder, spec) {
            // The spare may have exited while it waited. Then the order is not the cause.
            Err(BoxError::InitFailed { .. }) => clear(spec)?,
            started => return started,
        }
    }
    start(Builder::spawn(init, Work::Launch)?, spec)
}

/// Kills the processes of an earlier box in the directory, and removes its temporary files.
fn clear(spec: &BoxSpec) -> Result<(), BoxError> {
    end(&spec.directory)?;
    for name in ["control.sock", HELD_FILE] {
        match fs::remove_file(spec.directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).at("remove", &spec.directory),
            _ => {}
        }
    }
    Ok(())
}

fn start(mut builder: Builder, spec: &BoxSpec) -> Result<RunningBox, BoxError> {
    let report = builder.request(&Order::Start(Box::new(spec.clone()))).at("describe", &spec.directory);
    let status = builder.end().at("wait for the helper of", &spec.directory)?;
    match report? {
        Ok(Report::Ready(held)) => {
            write_held(&spec.directory, &held)?;
            Ok(RunningBox { directory: spec.directory.clone(), held })
        }
        Ok(Report::Refused(refused)) => Err(refused.into()),
        Err(output) => {
            builder.reap_orphan();
            Err(BoxError::InitFailed { status: status.to_string(), output })
        }
    }
}

/// Records the limits that hold, for a later server. If the server is killed meanwhile, the old
/// file stays.
fn write_held(directory: &Path, held: &Held) -> Result<(), BoxError> {
    let (path, new) = (directory.join(HELD_FILE), directory.join("held.json.new"));
    let text = serde_json::to_vec(held).map_err(io::Error::from);
    text.and_then(|text| fs::write(&new, text)).and_then(|()| fs::rename(&new, &path)).at("write", &path)
}

impl RunningBox {
    /// Finds a box by its directory. Fails if process 1 is not the recorded process any more.
    pub fn find(directory: &Path) -> Result<Self, BoxError> {
        let gone = |reason| BoxError::Gone { reason };
        let record = OwnerRecord::read(directory).at("read the record in", directory)?;
        let record = record.ok_or(gone("there is no record of it"))?;
        let init = record.init.ok_or(gone("it was never started"))?;
        init.alive().at("look for the process of", directory)?.ok_or(gone("its first process has ended"))?;
        let path = directory.join(HELD_FILE);
        let held = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone("it never became ready")),
            text => text.at("read", &path)?,
        };
        let held = serde_json::from_slice(&held).at("read", &path)?;
        Ok(Self { directory: directory.to_owned(), held })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the limits that hold, read back from the kernel.
    pub fn held(&self) -> Held {
        self.held
    }

    pub fn record(&self) -> Result<OwnerRecord, BoxError> {
        let record = OwnerRecord::read(&self.directory).at("read the record in", &self.directory)?;
        record.ok_or(BoxError::Gone { reason: "there is no record of it" })
    }

    /// Assigns a box of the warm pool to a session: sets the environment of its commands and its
    /// limits. Returns the box with the limits that hold now. The disk limits do not change.
    pub fn bind(&self, env: BTreeMap<String, String>, limits: &Limits) -> Result<Self, BoxError> {
        // A response proves that the process is still the recorded one.
        self.connect()?.bind(env)?;
        let pid = self.record()?.init.map(|mark| mark.pid).ok_or(BoxError::Gone { reason: "it was never started" })?;
        let Held { disk, inodes, reserve, .. } = self.held;
        let held = Held { disk, inodes, reserve, ..bind_limits(pid, limits) };
        write_held(&self.directory, &held)?;
        Ok(Self { directory: self.directory.clone(), held })
    }

    /// Opens a connection to the guest.
    pub fn connect(&self) -> Result<Connection, BoxError> {
        Connection::open(&self.directory)
    }

    /// Kills every process of the box and waits until they are gone. Its files stay.
    pub fn kill(&self) -> Result<(), BoxError> {
        kill(&self.directory, &self.record()?)
    }
}

/// Kills process 1. The kernel then kills every process of its pid namespace.
pub(super) fn kill(directory: &Path, record: &OwnerRecord) -> Result<(), BoxError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let Some(mark) = &record.init else { return Ok(()) };
    let Some(pid) = Pid::from_raw(mark.pid.max(0)) else { return Ok(()) };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(()) };
    // The handle was opened before this check. If the marks match, the signal reaches this process
    // and no other.
    if mark.alive().at("look for the process of", directory)?.is_some() {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
        let timeout = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout));
        if !ended.is_ok_and(|count| count == 1) {
            return Err(BoxError::Undead { what: format!("process {}", mark.pid), seconds: PATIENCE.as_secs() });
        }
    }
    // Reaps process 1 if it is a child of this process. Otherwise its own parent reaps it.
    let _ = waitid(WaitId::PidFd(std::os::fd::AsFd::as_fd(&handle)), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    Ok(())
}
