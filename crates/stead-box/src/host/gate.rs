//! Boxes that a container runtime builds: how the server and their first process meet.
//!
//! The box's directory holds `control.sock`, bound by the server where no box can see it, and `gate/`, which the box sees read-only. The
//! first process asks at the gate and is given the listener; then the gate is shut. Whoever comes later, a hostile command of the box
//! included, finds an empty directory.

use std::fs::{self, Permissions};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{UnmountFlags, unmount};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::socket_peercred};

use super::client::{Connection, Lending};
use crate::build::{self, HandOver, Report};
use crate::cgroup::{GroupEvents, Groups, Held};
use crate::error::{At, BoxError};
use crate::record::ProcessMark;
use crate::spec::Limits;

/// After its last process a box's mounts go within moments.
const DEVICE_PATIENCE: Duration = Duration::from_secs(3);

/// A box that lives calls at once.
const CALL_PATIENCE: Duration = Duration::from_secs(10);
/// The secret is sent with the call.
const SECRET_PATIENCE: Duration = Duration::from_millis(500);

/// A gate that is open for the first process of one box.
pub struct Gate {
    directory: PathBuf,
    gate: UnixListener,
    control: UnixListener,
    after: After,
}

/// What becomes of the socket at the gate once somebody was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Goes,
    Stays,
}

/// A guest that was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guest {
    /// Its process, as this host numbers it; `None` if it is in no pid namespace that is seen from here.
    pub pid: Option<i32>,
    /// Read back after setting.
    pub held: Held,
}

impl Gate {
    /// `directory` is the box's own and exists.
    pub fn open(directory: &Path) -> Result<Self, BoxError> {
        let gate = directory.join("gate");
        fs::create_dir_all(&gate).at("make", &gate)?;
        fs::set_permissions(&gate, Permissions::from_mode(0o755)).at("open", &gate)?;
        let control = bind(directory, "control.sock")?;
        let listener = bind(&gate, build::GATE_SOCKET)?;
        // The agent's user is nobody's on this host; the directory above keeps everybody else out.
        fs::set_permissions(gate.join(build::GATE_SOCKET), Permissions::from_mode(0o666)).at("open", &gate)?;
        Ok(Self { directory: directory.to_owned(), gate: listener, control, after: After::Goes })
    }

    /// The same for a box whose kernel takes no descriptors: its first process will call at the gate, which therefore stays open to who knows the
    /// secret. `pid` is a process of the box's groups, since nobody at the gate can be told by the kernel's word.
    pub fn admit_dialling(
        self,
        mut hand_over: HandOver,
        limits: &Limits,
        pid: Option<i32>,
        patience: Duration,
    ) -> Result<(Guest, Switchboard), BoxError> {
        let secret = secret().map_err(BoxError::Lost)?;
        let guest = self.knock(patience)?;
        let held = pid.map(|pid| bind_limits(pid, limits)).unwrap_or_default();
        hand_over.dial = Some(secret.clone());
        let text = serde_json::to_vec(&hand_over).map_err(io::Error::other).map_err(BoxError::Lost)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other).map_err(BoxError::Lost)?;
        let told = (&guest).write_all(&length.to_le_bytes()).and_then(|()| (&guest).write_all(&text));
        told.map_err(BoxError::Lost)?;
        ready(&read_line(&guest).map_err(BoxError::Lost)?)?;
        Ok((Guest { pid, held }, Switchboard::of(self, secret)?))
    }

    fn knock(&self, patience: Duration) -> Result<UnixStream, BoxError> {
        let guest = next(&self.gate, Instant::now() + patience)?;
        let unasked = || BoxError::Gone { reason: "its first process did not ask for its control socket in time" };
        let guest = guest.ok_or_else(unasked)?;
        guest.set_read_timeout(Some(patience)).map_err(BoxError::Lost)?;
        Ok(guest)
    }

    /// Waits for the box's first process, binds the limits to it, hands it the listener and waits until it says that the box is closed.
    /// `furnish` is done while it waits: nothing has run in the box by then.
    pub fn admit(
        self,
        mut hand_over: HandOver,
        limits: &Limits,
        patience: Duration,
        furnish: impl FnOnce(Option<ProcessMark>) -> Result<(), BoxError>,
    ) -> Result<Guest, BoxError> {
        let guest = self.knock(patience)?;
        let peer = socket_peercred(&guest).ok();
        furnish(peer.and_then(|peer| ProcessMark::of(peer.pid).ok()))?;
        let pid = peer.map(|peer| peer.pid.as_raw_nonzero().get());
        let groups = pid.and_then(|pid| Groups::of_process(pid).ok());
        let held = groups.as_ref().map(|groups| groups.limit(limits)).unwrap_or_default();
        let events = groups.and_then(|groups| groups.events().ok()).unwrap_or_default();
        hand_over.memory_events = events.memory.is_some();
        hand_over.process_events = events.processes.is_some();
        send(&guest, &hand_over, &self.control, &events).map_err(BoxError::Lost)?;
        ready(&read_line(&guest).map_err(BoxError::Lost)?)?;
        Ok(Guest { pid, held })
    }
}

/// What the first process says of the box it is in.
fn ready(said: &[u8]) -> Result<(), BoxError> {
    match serde_json::from_slice(said) {
        Ok(Report::Ready(_)) => Ok(()),
        Ok(Report::Refused(refused)) => Err(refused.into()),
        Err(_) => {
            let said = String::from_utf8_lossy(said).chars().take(200).collect();
            Err(BoxError::InitFailed { status: "no report".to_owned(), said })
        }
    }
}

/// Where the first process of one box calls, and the server takes its calls as it needs them.
pub struct Switchboard {
    gate: UnixListener,
    secret: String,
}

impl Switchboard {
    /// Opens the gate again, after the server has restarted.
    pub fn open(directory: &Path, secret: String) -> Result<Self, BoxError> {
        Self::of(Gate::open(directory)?, secret)
    }

    fn of(mut gate: Gate, secret: String) -> Result<Self, BoxError> {
        gate.after = After::Stays;
        let gate = gate.gate.try_clone().map_err(BoxError::Lost)?;
        gate.set_nonblocking(true).map_err(BoxError::Lost)?;
        Ok(Self { gate, secret })
    }

    /// What its calls begin with. Only the server and the box's first process may know it.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The next call, greeted. Calls of anybody else are hung up.
    pub fn connect(&self) -> Result<Connection, BoxError> {
        let deadline = Instant::now() + CALL_PATIENCE;
        while let Some(call) = next(&self.gate, deadline)? {
            call.set_read_timeout(Some(SECRET_PATIENCE)).map_err(BoxError::Lost)?;
            let mut line = vec![0; self.secret.len() + 1];
            let known = (&call).read_exact(&mut line).is_ok() && line[..self.secret.len()] == *self.secret.as_bytes();
            // One that waited since before a restart of the server may be dead: the next one is not.
            if known && let Ok(connection) = Connection::greet(call, Lending::InPieces) {
                return Ok(connection);
            }
        }
        Err(BoxError::Lost(io::ErrorKind::TimedOut.into()))
    }
}

/// Whoever comes to a listener next, until the deadline.
fn next(listener: &UnixListener, deadline: Instant) -> Result<Option<UnixStream>, BoxError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        if poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout)).map_err(lost)? == 0 {
            return Ok(None);
        }
        match listener.accept() {
            Ok((stream, _)) => return Ok(Some(stream)),
            // Somebody else was quicker.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(BoxError::Lost(error)),
        }
    }
}

/// 32 bytes that nobody can guess, in letters.
fn secret() -> io::Result<String> {
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Drop for Gate {
    fn drop(&mut self) {
        if self.after == After::Goes {
            let _ = fs::remove_file(self.directory.join("gate").join(build::GATE_SOCKET));
        }
    }
}

/// By descriptor: a socket's path has a hundred bytes, a directory's may have thousands.
fn bind(directory: &Path, name: &str) -> Result<UnixListener, BoxError> {
    match fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).at("remove", directory),
        _ => {}
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(CWD, directory, flags, Mode::empty()).at("open", directory)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{name}", fd.as_raw_fd())).at("bind a socket in", directory)
}

fn send(to: &UnixStream, what: &HandOver, control: &UnixListener, events: &GroupEvents) -> io::Result<()> {
    let text = serde_json::to_vec(what)?;
    let mut message = u32::try_from(text.len()).map_err(io::Error::other)?.to_le_bytes().to_vec();
    message.extend(text);
    let mut files = vec![control.as_fd()];
    files.extend(events.files().map(AsFd::as_fd));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    let sent = sendmsg(to, &[IoSlice::new(&message[..1])], &mut control, SendFlags::NOSIGNAL)?;
    if sent != 1 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    (&*to).write_all(&message[1..])
}

fn read_line(from: &UnixStream) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    while !said.ends_with(b"\n") && said.len() < 64 << 10 {
        match (&*from).read(&mut buffer)? {
            0 => break,
            count => said.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(said)
}

fn lost(error: rustix::io::Errno) -> BoxError {
    BoxError::Lost(error.into())
}

/// A new connection to the first process of the box whose directory this is.
pub fn connect(directory: &Path) -> Result<Connection, BoxError> {
    Connection::open(directory)
}

/// Binds limits to the groups a process is in, and reads them back.
pub fn bind_limits(pid: i32, limits: &Limits) -> Held {
    Groups::of_process(pid).map(|groups| groups.limit(limits)).unwrap_or_default()
}

/// Mounts a volume of the limits' size at `directory/volume`, if it is not mounted there already. Needs root.
///
/// An empty image of each size is kept in `templates`, to be copied.
pub fn mount_volume(directory: &Path, limits: &Limits, agent: u32, templates: &Path) -> Result<(), BoxError> {
    Ok(build::mount_volume(directory, limits, agent, templates)?)
}

/// Takes the mount off again; what is in it stays in the image. None there is none to take off.
pub fn unmount_volume(directory: &Path) -> Result<(), BoxError> {
    let (target, image) = (directory.join("volume"), directory.join("volume.img"));
    let device = loop_device_of(&image);
    // The volume, and the shared mount below it.
    loop {
        match unmount(&target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT | rustix::io::Errno::PERM) => break,
            done => done.at("unmount", &target)?,
        }
    }
    // The kernel frees the device with the box's last mount; removing the image before that would keep its space taken.
    let deadline = Instant::now() + DEVICE_PATIENCE;
    while device.is_some() && loop_device_of(&image) == device {
        // A mount namespace that was made while this mount was there may have a copy of it. The space is free when that one goes.
        if Instant::now() > deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// The device that a file is bound to.
fn loop_device_of(image: &Path) -> Option<PathBuf> {
    let image = fs::canonicalize(image).ok()?;
    let devices = fs::read_dir("/sys/block").ok()?.flatten().map(|device| device.path().join("loop/backing_file"));
    let is_it = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|backing| Path::new(backing.trim_end()) == image);
    devices.into_iter().find(is_it)
}
