//! The network of a box: a namespace in which every TCP connection ends in one listener.
//!
//! A route makes every IPv4 address local, and a rule gives every connection to the listener, which
//! the server borrows. `getsockname` of an accepted socket is the address that the program wanted.
//! Names are resolved by the server too: it also borrows the sockets of the resolver's address.
//! There is no other interface, so nothing else leaves the box. IPv6 has no route.
//!
//! All of it is made before the box drops its privileges. The invariant: no program in the box can
//! change it, because the filter refuses nf_tables, and the box has no capability.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::launch::bring_up_loopback;
use crate::error::{OrRefuse, Primitive, Refused};
use crate::sys::{netlink, sockets};

/// Address of the box itself and of its resolver. Without an address other than 127.0.0.1, programs
/// that ask for addresses of a configured kind find none.
pub const BOX_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Address of the listener. No program uses it, so it collides with no server in the box.
pub const CAPTURE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 255, 255, 1), 1);
/// Address of the resolver.
pub const RESOLVER: SocketAddrV4 = SocketAddrV4::new(BOX_ADDRESS, 53);
/// Number of connections that wait while no server accepts them.
const BACKLOG: i32 = 64;
/// Size of each buffer of a captured connection. The kernel would let it grow to megabytes, which
/// count as the server's memory.
const BUFFER: usize = 256 << 10;

/// The sockets that the server borrows.
#[derive(Debug)]
pub struct NetworkSockets {
    /// Listener of all captured connections.
    pub capture: OwnedFd,
    /// Resolver, over UDP.
    pub datagrams: OwnedFd,
    /// Resolver, over TCP.
    pub streams: OwnedFd,
}

impl NetworkSockets {
    /// Number of sockets.
    pub(crate) const COUNT: usize = 3;

    pub(crate) fn files(&self) -> [&OwnedFd; Self::COUNT] {
        [&self.capture, &self.datagrams, &self.streams]
    }

    pub(crate) fn from_files(files: [OwnedFd; Self::COUNT]) -> Self {
        let [capture, datagrams, streams] = files;
        Self { capture, datagrams, streams }
    }
}

/// Sets up the network namespace of this thread, in which loopback is up. Needs the right to change
/// it.
pub(super) fn furnish() -> Result<NetworkSockets, Refused> {
    let refused = |doing: &'static str| move || doing.to_owned();
    netlink::make_everything_local(BOX_ADDRESS)
        .or_refuse(Primitive::Loopback, refused("cannot set the addresses of the box's network"))?;
    // The socket comes first: without the rule nothing reaches it, and without it the rule would
    // refuse connections.
    let sockets = open_sockets().or_refuse(Primitive::Capture, refused("cannot make the sockets of the network"))?;
    netlink::capture(BOX_ADDRESS, *CAPTURE.ip(), CAPTURE.port())
        .or_refuse(Primitive::Capture, refused("cannot capture the box's connections"))?;
    Ok(sockets)
}

/// Sets up the network of a box that a container runtime has made and in which no program runs yet.
/// Needs root.
///
/// A namespace belongs to a thread, so this runs on a thread of its own, which ends at once.
pub(crate) fn furnish_namespace(namespace: &OwnedFd) -> Result<NetworkSockets, Refused> {
    let enter = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .or_refuse(Primitive::Namespaces, || "cannot enter the box's network".to_owned())?;
        bring_up_loopback()?;
        furnish()
    };
    let ended = || Refused {
        primitive: Primitive::Namespaces,
        doing: "cannot enter the box's network".to_owned(),
        reason: "the thread ended".to_owned(),
    };
    std::thread::scope(|scope| scope.spawn(enter).join().unwrap_or_else(|_| Err(ended())))
}

fn open_sockets() -> io::Result<NetworkSockets> {
    let capture = new_socket(SocketType::STREAM)?;
    sockets::set_transparent(&capture)?;
    // Accepted connections inherit the sizes.
    sockopt::set_socket_recv_buffer_size(&capture, BUFFER)?;
    sockopt::set_socket_send_buffer_size(&capture, BUFFER)?;
    bind(&capture, &CAPTURE)?;
    listen(&capture, BACKLOG)?;
    let datagrams = new_socket(SocketType::DGRAM)?;
    bind(&datagrams, &RESOLVER)?;
    let streams = new_socket(SocketType::STREAM)?;
    bind(&streams, &RESOLVER)?;
    listen(&streams, BACKLOG)?;
    Ok(NetworkSockets { capture, datagrams, streams })
}

fn new_socket(kind: SocketType) -> io::Result<OwnedFd> {
    // No program in the box reads these sockets, and the server must never block in one.
    Ok(socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?)
}
