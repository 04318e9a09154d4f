//! The handshake between the server and the guest in boxes that a container runtime builds.
//!
//! The box's directory contains `control.sock`, which the server binds where no box can see it, and
//! `gate/`, which the box sees read-only. The guest connects to the gate and receives the listener.
//! Then the gate is closed. Later processes of the box, including hostile ones, only find an empty
//! directory.

use std::fs::{self, Permissions};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{UnmountFlags, unmount};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt::socket_peercred};

use super::client::{Connection, Lending};
use crate::build::{self, HandOver, NetworkSockets, Report};
use crate::cgroup::{Groups, Held};
use crate::error::{At, BoxError};
use crate::record::ProcessMark;
use crate::spec::{Limits, Network};

/// Time for the kernel to release a box's mounts after its last process.
const DEVICE_PATIENCE: Duration = Duration::from_secs(3);

/// Timeout for a connection from the guest. A live guest connects at once.
const CALL_PATIENCE: Duration = Duration::from_secs(10);
/// Timeout for the secret, which the guest sends together with the connection.
const SECRET_PATIENCE: Duration = Duration::from_millis(500);

/// An open gate for the guest of one box.
pub struct Gate {
    directory: PathBuf,
    gate: UnixListener,
    control: UnixListener,
    after: After,
}

/// Handling of the gate's socket after the guest was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Goes,
    Stays,
}

/// An admitted guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guest {
    /// Process id on this host; `None` if its pid namespace is not visible from here.
    pub pid: Option<i32>,
    /// Limits that hold, read back after they were set.
    pub held: Held,
}

impl Gate {
    /// Opens a gate in `directory`, the existing directory of the box.
    pub fn open(directory: &Path) -> Result<Self, BoxError> {
        let gate = directory.join("gate");
        fs::create_dir_all(&gate).at("make", &gate)?;
        fs::set_permissions(&gate, Permissions::from_mode(0o755)).at("open", &gate)?;
        let control = bind(directory, "control.sock")?;
        let listener = bind(&gate, build::GATE_SOCKET)?;
        // The agent's user has no permissions on this host. The parent directory denies access to
        // all others.
        fs::set_permissions(gate.join(build::GATE_SOCKET), Permissions::from_mode(0o666)).at("open", &gate)?;
        Ok(Self { directory: directory.to_owned(), gate: listener, control, after: After::Goes })
    }

    /// Admits a guest whose kernel cannot receive descriptors. The guest connects to the gate for
    /// each connection, so the gate stays open and requires the secret. `pid` is a process in the
    /// box's control groups, because the kernel cannot identify the peer at the gate.
    pub fn admit_dialling(
        self,
        mut hand_over: HandOver,
        limits: &Limits,
        pid: Option<i32>,
        patience: Duration,
    ) -> Result<(Guest, Switchboard), BoxError> {
        let secret = secret().map_err(BoxError::Lost)?;
        let guest = self.accept_guest(patience)?;
        let held = pid.map(|pid| bind_limits(pid, limits)).unwrap_or_default();
        hand_over.dial = Some(secret.clone());
        let text = serde_json::to_vec(&hand_over).map_err(io::Error::other).map_err(BoxError::Lost)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other).map_err(BoxError::Lost)?;
        let sent = (&guest).write_all(&length.to_le_bytes()).and_then(|()| (&guest).write_all(&text));
        sent.map_err(BoxError::Lost)?;
        ready(&read_line(&guest).map_err(BoxError::Lost)?)?;
        Ok((Guest { pid, held }, Switchboard::of(self, secret)?))
    }

    fn accept_guest(&self, patience: Duration) -> Result<UnixStream, BoxError> {
        let guest = next(&self.gate, Instant::now() + patience)?;
        let unasked = || BoxError::Gone { reason: "its first process did not ask for its control socket in time" };
        let guest = guest.ok_or_else(unasked)?;
        guest.set_read_timeout(Some(patience)).map_err(BoxError::Lost)?;
        Ok(guest)
    }

    /// Waits for the guest, applies the limits to it, passes it the listener and waits until it
    /// reports that the box is locked down. `furnish` runs in between, before any program runs in
    /// the box.
    pub fn admit(
        self,
        mut hand_over: HandOver,
        limits: &Limits,
        patience: Duration,
        furnish: impl FnOnce(Option<ProcessMark>) -> Result<Option<NetworkSockets>, BoxError>,
    ) -> Result<Guest, BoxError> {
        let guest = self.accept_guest(patience)?;
        let peer = socket_peercred(&guest).ok();
        let network = furnish(peer.and_then(|peer| ProcessMark::of(peer.pid).ok()))?;
        let pid = peer.map(|peer| peer.pid.as_raw_nonzero().get());
        let groups = pid.and_then(|pid| Groups::of_process(pid).ok());
        let held = groups.as_ref().map(|groups| groups.limit(limits)).unwrap_or_default();
        let events = groups.and_then(|groups| groups.events().ok()).unwrap_or_default();
        hand_over.memory_events = events.memory.is_some();
        hand_over.process_events = events.processes.is_some();
        hand_over.network = if network.is_some() { Network::Captured } else { Network::None };
        let mut files = vec![self.control.as_fd()];
        files.extend(events.files().map(AsFd::as_fd));
        files.extend(network.iter().flat_map(NetworkSockets::files).map(AsFd::as_fd));
        send(&guest, &hand_over, &files).map_err(BoxError::Lost)?;
        ready(&read_line(&guest).map_err(BoxError::Lost)?)?;
        Ok(Guest { pid, held })
    }
}

/// Parses the guest's report.
fn ready(report: &[u8]) -> Result<(), BoxError> {
    match serde_json::from_slice(report) {
        Ok(Report::Ready(_)) => Ok(()),
        Ok(Report::Refused(refused)) => Err(refused.into()),
        Err(_) => {
            let output = String::from_utf8_lossy(report).chars().take(200).collect();
            Err(BoxError::InitFailed { status: "no report".to_owned(), output })
        }
    }
}

/// Accepts the connections of a guest that dials the server.
pub struct Switchboard {
    gate: UnixListener,
    secret: String,
}

impl Switchboard {
    /// Opens the gate again after a restart of the server.
    pub fn open(directory: &Path, secret: String) -> Result<Self, BoxError> {
        Self::of(Gate::open(directory)?, secret)
    }

    fn of(mut gate: Gate, secret: String) -> Result<Self, BoxError> {
        gate.after = After::Stays;
        let gate = gate.gate.try_clone().map_err(BoxError::Lost)?;
        gate.set_nonblocking(true).map_err(BoxError::Lost)?;
        Ok(Self { gate, secret })
    }

    /// First line of each connection. Only the server and the guest may know it.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns the next connection after its handshake. Connections without the secret are closed.
    pub fn connect(&self) -> Result<Connection, BoxError> {
        let deadline = Instant::now() + CALL_PATIENCE;
        while let Some(call) = next(&self.gate, deadline)? {
            call.set_read_timeout(Some(SECRET_PATIENCE)).map_err(BoxError::Lost)?;
            let mut line = vec![0; self.secret.len() + 1];
            let known = (&call).read_exact(&mut line).is_ok() && line[..self.secret.len()] == *self.secret.as_bytes();
            // A connection from before a restart of the server may be dead. Then try the next one.
            if known && let Ok(connection) = Connection::greet(call, Lending::InPieces) {
                return Ok(connection);
            }
        }
        Err(BoxError::Lost(io::ErrorKind::TimedOut.into()))
    }
}

/// Accepts the next connection; `None` if the deadline passes first.
fn next(listener: &UnixListener, deadline: Instant) -> Result<Option<UnixStream>, BoxError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        if poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout)).map_err(lost)? == 0 {
            return Ok(None);
        }
        match listener.accept() {
            Ok((stream, _)) => return Ok(Some(stream)),
            // Another thread accepted the connection.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(BoxError::Lost(error)),
        }
    }
}

/// Returns 32 random bytes in hexadecimal.
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

/// Binds a socket through a descriptor of its directory, because a socket path is limited to about
/// a hundred bytes and the directory's path may be longer.
fn bind(directory: &Path, name: &str) -> Result<UnixListener, BoxError> {
    match fs::remove_file(directory.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).at("remove", directory),
        _ => {}
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = openat(CWD, directory, flags, Mode::empty()).at("open", directory)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{name}", fd.as_raw_fd())).at("bind a socket in", directory)
}

fn send(to: &UnixStream, what: &HandOver, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let text = serde_json::to_vec(what)?;
    let mut message = u32::try_from(text.len()).map_err(io::Error::other)?.to_le_bytes().to_vec();
    message.extend(text);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(build::MOST_HANDED_OVER))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("no room for the files"));
    }
    let sent = sendmsg(to, &[IoSlice::new(&message[..1])], &mut control, SendFlags::NOSIGNAL)?;
    if sent != 1 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    (&*to).write_all(&message[1..])
}

fn read_line(from: &UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut buffer = [0; 4096];
    while !line.ends_with(b"\n") && line.len() < 64 << 10 {
        match (&*from).read(&mut buffer)? {
            0 => break,
            count => line.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(line)
}

fn lost(error: rustix::io::Errno) -> BoxError {
    BoxError::Lost(error.into())
}

/// Opens a connection to the guest of the box in this directory.
pub fn connect(directory: &Path) -> Result<Connection, BoxError> {
    Connection::open(directory)
}

/// Applies limits to the control groups of a process. Returns the limits that hold.
pub fn bind_limits(pid: i32, limits: &Limits) -> Held {
    Groups::of_process(pid).map(|groups| groups.limit(limits)).unwrap_or_default()
}

/// Mounts a volume with the size of the limits at `directory/volume`. No-op if it is mounted
/// already. Needs root.
///
/// `templates` contains an empty image of each size, to be copied.
pub fn mount_volume(directory: &Path, limits: &Limits, agent: u32, templates: &Path) -> Result<(), BoxError> {
    Ok(build::mount_volume(directory, limits, agent, templates)?)
}

/// Unmounts the volume. Its content stays in the image. No-op if nothing is mounted.
pub fn unmount_volume(directory: &Path) -> Result<(), BoxError> {
    let (target, image) = (directory.join("volume"), directory.join("volume.img"));
    let device = loop_device_of(&image);
    // Unmounts the volume, and the shared mount below it.
    loop {
        match unmount(&target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT | rustix::io::Errno::PERM) => break,
            done => done.at("unmount", &target)?,
        }
    }
    // The kernel releases the device with the box's last mount. Removing the image before that
    // would keep its space in use.
    let deadline = Instant::now() + DEVICE_PATIENCE;
    while device.is_some() && loop_device_of(&image) == device {
        // A mount namespace that was made in the meantime may have a copy of the mount. The space
        // becomes free when that namespace ends.
        if Instant::now() > deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Returns the loop device that a file is bound to.
fn loop_device_of(image: &Path) -> Option<PathBuf> {
    let image = fs::canonicalize(image).ok()?;
    let devices = fs::read_dir("/sys/block").ok()?.flatten().map(|device| device.path().join("loop/backing_file"));
    let is_it = |file: &PathBuf| fs::read_to_string(file).is_ok_and(|backing| Path::new(backing.trim_end()) == image);
    devices.into_iter().find(is_it)
}
