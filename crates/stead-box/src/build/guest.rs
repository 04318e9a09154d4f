//! `stead-init guest`: process 1 of a box that a container runtime built.
//!
//! The runtime provides namespaces, root, limits and no privileges. It mounts this program into the
//! box read-only, next to a directory with one socket. Over that socket the server passes the
//! listener to serve, which is bound where no box can see it. Then the socket is removed. Under a
//! kernel that cannot pass descriptors (gVisor) the socket stays, and this program connects to the
//! server through it. The invariant is that of [`super`]: it serves no request before it has
//! verified with the kernel that it has no privileges.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::launch::{Report, say};
use super::lockdown;
use super::network::NetworkSockets;
use crate::affinity_view::AffinityView;
use crate::cgroup::{GroupEvents, Held};
use crate::error::{OrRefuse, Primitive, Refused};
use crate::init::{self, Dialler, Door, Handles, UpperOn};
use crate::spec::Network;
use crate::sys::signals;

/// Path of this program in the box.
pub const INIT: &str = "/.stead/init";
/// Path in the box of the directory with the socket.
pub const GATE: &str = "/.stead/gate";
/// Name of the socket in that directory.
pub(crate) const GATE_SOCKET: &str = "gate.sock";
const MAX_HAND_OVER: usize = 1 << 20;
/// Maximum number of descriptors: the listener, two files of events and the sockets of the network.
pub(crate) const MOST_HANDED_OVER: usize = 3 + NetworkSockets::COUNT;
/// Environment variables that a container engine sets. They do not come from the image, and the box
/// sets its own.
const NOT_THE_IMAGES: &[&str] = &["HOME", "HOSTNAME", "TERM", "container", "PWD", "USER"];

/// Message that comes with the listener.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HandOver {
    /// Environment variables in addition to those of the image.
    pub env: BTreeMap<String, String>,
    /// Set if this kernel cannot pass descriptors. Then the guest opens each connection through the
    /// gate and starts it with this line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dial: Option<String>,
    /// True if the server also passes the file in which the kernel counts OOM kills.
    pub memory_events: bool,
    /// True if the server also passes `pids.events`, as the last file. The kernel counts refused
    /// processes there.
    #[serde(default)]
    pub process_events: bool,
    /// The sockets of a captured network come after these files.
    #[serde(default)]
    pub network: Network,
    /// Number of processors to show, if the CPU limit lowers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<u64>,
}

/// Receives the listener, locks down the box and serves. Returns an exit code if that fails or the
/// box is shut down.
pub fn guest() -> i32 {
    let path = format!("{GATE}/{GATE_SOCKET}");
    let Ok(server) = UnixStream::connect(path) else { return 2 };
    let report = match server.try_clone() {
        Ok(stream) => File::from(OwnedFd::from(stream)),
        Err(_) => return 2,
    };
    match set_up(server, &report) {
        Ok(handles) => {
            init::serve(handles);
            0
        }
        Err(refused) => {
            say(&report, &Report::Refused(refused));
            1
        }
    }
}

fn set_up(server: UnixStream, report: &File) -> Result<Handles, Refused> {
    let (hand_over, files) =
        receive(&server).or_refuse(Primitive::ControlSocket, || "cannot take over the control socket".to_owned())?;
    drop(server);
    let mut files = files.into_iter();
    let missing = || Refused {
        primitive: Primitive::ControlSocket,
        doing: "cannot take over the control socket".to_owned(),
        reason: "it did not come".to_owned(),
    };
    let door = match hand_over.dial {
        Some(secret) => Door::Dialled(Dialler::new(format!("{GATE}/{GATE_SOCKET}"), secret)),
        None => Door::Listener(UnixListener::from(files.next().ok_or_else(missing)?)),
    };
    let events = GroupEvents {
        memory: if hand_over.memory_events { files.next() } else { None },
        processes: if hand_over.process_events { files.next() } else { None },
    };
    let network = match hand_over.network {
        Network::None => None,
        Network::Captured => {
            let mut next = || files.next().ok_or_else(missing);
            Some(NetworkSockets::from_files([next()?, next()?, next()?]))
        }
    };
    let core = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, core).or_refuse(Primitive::Spec, || "cannot set a resource limit".to_owned())?;
    let mut keep = vec![door.as_raw_fd().unwrap_or(0), report.as_raw_fd()];
    keep.extend(events.files().map(AsRawFd::as_raw_fd));
    keep.extend(network.iter().flat_map(NetworkSockets::files).map(AsRawFd::as_raw_fd));
    close_others(&keep).or_refuse(Primitive::Spec, || "cannot close inherited files".to_owned())?;
    lockdown::prove_nothing_is_held(&keep)?;
    say(report, &Report::Ready(Held::default()));
    lockdown::close_report(report)?;
    let mut env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !NOT_THE_IMAGES.contains(&name.as_str()))
        .collect();
    env.extend(hand_over.env);
    let affinity = hand_over.processors.and_then(|shown| AffinityView::install(shown).ok());
    Ok(Handles { door, cgroup: None, events, env, compared: None, upper_on: UpperOn::Volume, network, affinity })
}

/// Closes descriptors that the runtime left open.
fn close_others(keep: &[i32]) -> io::Result<()> {
    let entries = std::fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<i32> = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2 && !keep.contains(number)) {
        signals::close(number);
    }
    Ok(())
}

/// Receives four bytes of length, then JSON. The descriptors come with the first byte.
fn receive(mut server: &UnixStream) -> io::Result<(HandOver, Vec<OwnedFd>)> {
    let mut length = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_HANDED_OVER))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(server, &mut [IoSliceMut::new(&mut length[..1])], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes != 1 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let files = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    let files = files.collect();
    server.read_exact(&mut length[1..])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HAND_OVER {
        return Err(io::Error::other("it is too long"));
    }
    let mut text = vec![0; length];
    server.read_exact(&mut text)?;
    Ok((serde_json::from_slice(&text)?, files))
}
