//! Starting a box, and taking up one that was started before.

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

/// A box whose first process was alive when this was made.
#[derive(Debug, Clone)]
pub struct RunningBox {
    directory: PathBuf,
    held: Held,
}

/// Starts a box. On an error nothing of it is left.
///
/// `init` is the `stead-init` program. The box's first process becomes a child of the caller's, reaped by [`RunningBox::kill`] and [`remove`].
pub fn launch(init: &Path, spec: &BoxSpec) -> Result<RunningBox, BoxError> {
    match DirBuilder::new().mode(0o700).create(&spec.directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(BoxError::Exists { id: spec.id.clone(), directory: spec.directory.clone() });
        }
        made => made.at("make", &spec.directory)?,
    }
    start(Builder::spawn(init, Work::Launch)?, spec).inspect_err(|_| {
        // What could not be removed is found again by its directory.
        let _ = remove(&spec.directory);
    })
}

/// Starts a box again over the files an earlier one left, after its processes have ended or the host has restarted. Whatever still runs
/// of the earlier one is ended first. The ids must be the ones it had: its files belong to them.
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

/// Starts a box in a directory that is there, with a helper that waits for it if there is one. Whatever still runs of an earlier box is ended first; if the
/// start fails the files stay.
pub fn resume(init: &Path, spec: &BoxSpec, spare: Option<Spare>) -> Result<RunningBox, BoxError> {
    // Unlike at the first start, nothing is removed if this fails: the files are somebody's work.
    clear(spec)?;
    if let Some(builder) = spare.and_then(Spare::into_builder) {
        match start(builder, spec) {
            // It may have ended while it waited: then nothing was wrong with the order.
            Err(BoxError::InitFailed { .. }) => clear(spec)?,
            started => return started,
        }
    }
    start(Builder::spawn(init, Work::Launch)?, spec)
}

/// Ends what runs of an earlier box in the directory, and takes away its files of the moment.
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
    let said = builder.ask(&Order::Start(Box::new(spec.clone()))).at("describe", &spec.directory);
    let status = builder.end().at("wait for the helper of", &spec.directory)?;
    match said? {
        Ok(Report::Ready(held)) => {
            write_held(&spec.directory, &held)?;
            Ok(RunningBox { directory: spec.directory.clone(), held })
        }
        Ok(Report::Refused(refused)) => Err(refused.into()),
        Err(said) => {
            builder.reap_orphan();
            Err(BoxError::InitFailed { status: status.to_string(), said })
        }
    }
}

/// Records the limits that hold, for a server that takes the box up later. A server that is killed
/// meanwhile leaves the file as it was.
fn write_held(directory: &Path, held: &Held) -> Result<(), BoxError> {
    let (path, new) = (directory.join(HELD_FILE), directory.join("held.json.new"));
    let text = serde_json::to_vec(held).map_err(io::Error::from);
    text.and_then(|text| fs::write(&new, text)).and_then(|()| fs::rename(&new, &path)).at("write", &path)
}

impl RunningBox {
    /// Takes up a box by its directory, if its first process is still the one the record names.
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

    /// The limits that hold, read back from the kernel after they were set.
    pub fn held(&self) -> Held {
        self.held
    }

    pub fn record(&self) -> Result<OwnerRecord, BoxError> {
        let record = OwnerRecord::read(&self.directory).at("read the record in", &self.directory)?;
        record.ok_or(BoxError::Gone { reason: "there is no record of it" })
    }

    /// Gives a box that was kept ready to somebody: what its commands find in their environment, and what it may use. Gives the limits back as they
    /// hold now; those of its disk are what they were.
    pub fn bind(&self, env: BTreeMap<String, String>, limits: &Limits) -> Result<Self, BoxError> {
        // That it answers proves that the process is still the one that was recorded.
        self.connect()?.bind(env)?;
        let pid = self.record()?.init.map(|mark| mark.pid).ok_or(BoxError::Gone { reason: "it was never started" })?;
        let Held { disk, inodes, reserve, .. } = self.held;
        let held = Held { disk, inodes, reserve, ..bind_limits(pid, limits) };
        write_held(&self.directory, &held)?;
        Ok(Self { directory: self.directory.clone(), held })
    }

    /// A new connection to the box's first process.
    pub fn connect(&self) -> Result<Connection, BoxError> {
        Connection::open(&self.directory)
    }

    /// Ends every process of the box and waits until they are gone. Its files stay.
    pub fn kill(&self) -> Result<(), BoxError> {
        kill(&self.directory, &self.record()?)
    }
}

/// Ends the first process, and with it, by the kernel's rule, every process of its pid namespace.
pub(super) fn kill(directory: &Path, record: &OwnerRecord) -> Result<(), BoxError> {
    const PATIENCE: Duration = Duration::from_secs(10);
    let Some(mark) = &record.init else { return Ok(()) };
    let Some(pid) = Pid::from_raw(mark.pid.max(0)) else { return Ok(()) };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(()) };
    // The handle was opened before this look, so if the marks agree it is this process that gets the signal and no other.
    if mark.alive().at("look for the process of", directory)?.is_some() {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
        let timeout = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout));
        if !ended.is_ok_and(|count| count == 1) {
            return Err(BoxError::Undead { what: format!("process {}", mark.pid), seconds: PATIENCE.as_secs() });
        }
    }
    // Ours if this process started the box; somebody else's child otherwise, and theirs to reap.
    let _ = waitid(WaitId::PidFd(std::os::fd::AsFd::as_fd(&handle)), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    Ok(())
}
