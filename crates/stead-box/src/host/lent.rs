//! Descriptors that a box lends to the server, and the checks before the server uses them.

use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::fs::{fstat, stat};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketAddrAny, SocketType,
    getsockname, recvmsg, sockopt,
};

use crate::build::{CAPTURE, NetworkSockets, RESOLVER};
use crate::error::BoxError;
use crate::sys::sockets;

const OTHER_NETWORK: &str = "a socket of another network than the box's own";
/// Maximum number of descriptors in one answer.
const MOST: usize = 4;

/// Reads an answer and keeps its descriptors. Every other read of the server discards descriptors,
/// so a box can only lend them as the answer to a request for them.
pub(super) struct LendingReader<'a> {
    stream: &'a UnixStream,
    files: Vec<OwnedFd>,
    cut: bool,
}

impl<'a> LendingReader<'a> {
    pub(super) fn new(stream: &'a UnixStream) -> Self {
        Self { stream, files: Vec::new(), cut: false }
    }

    pub(super) fn into_files(self) -> Result<Vec<OwnedFd>, BoxError> {
        if self.cut || self.files.len() > MOST {
            return Err(foreign("more descriptors than it was asked for"));
        }
        Ok(self.files)
    }
}

impl Read for LendingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(self.stream, &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        self.cut |= received.flags.contains(ReturnFlags::CTRUNC);
        Ok(received.bytes)
    }
}

/// Returns the sockets of a box's network if they are what a box with a network has.
pub(super) fn network(files: Vec<OwnedFd>) -> Result<NetworkSockets, BoxError> {
    let files: [OwnedFd; NetworkSockets::COUNT] =
        files.try_into().map_err(|_| foreign("another number of descriptors than its network has"))?;
    let sockets = NetworkSockets::from_files(files);
    check(&sockets.capture, SocketType::STREAM, CAPTURE)?;
    check(&sockets.datagrams, SocketType::DGRAM, RESOLVER)?;
    check(&sockets.streams, SocketType::STREAM, RESOLVER)?;
    Ok(sockets)
}

/// Checks kind, state, address and namespace of a socket. It must not block either.
fn check(socket: &OwnedFd, kind: SocketType, address: SocketAddrV4) -> Result<(), BoxError> {
    let is_it = || -> io::Result<bool> {
        let listens = sockopt::socket_acceptconn(socket)?;
        let bound = getsockname(socket)?;
        Ok(sockopt::socket_domain(socket)? == AddressFamily::INET
            && sockopt::socket_type(socket)? == kind
            && listens == (kind == SocketType::STREAM)
            && bound == SocketAddrAny::from(address))
    };
    // An error means that it is no socket.
    if !is_it().unwrap_or(false) {
        return Err(foreign("a descriptor that is not the socket it was asked for"));
    }
    check_namespace(socket)?;
    rustix::io::ioctl_fionbio(socket, true).map_err(|error| BoxError::Lost(error.into()))
}

/// Refuses a socket of the server's own network.
fn check_namespace(socket: &OwnedFd) -> Result<(), BoxError> {
    // The kernel refuses this for a namespace in which the server has no rights.
    match sockets::network_namespace(socket) {
        Ok(namespace) => refuse_own_namespace(&namespace),
        Err(_) => Err(foreign(OTHER_NETWORK)),
    }
}

/// Refuses the network namespace of this process.
pub(super) fn refuse_own_namespace(namespace: &OwnedFd) -> Result<(), BoxError> {
    let same = || -> io::Result<bool> {
        let (theirs, ours) = (fstat(namespace)?, stat("/proc/self/ns/net")?);
        Ok((theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino))
    };
    if same().unwrap_or(true) { Err(foreign(OTHER_NETWORK)) } else { Ok(()) }
}

fn foreign(what: &'static str) -> BoxError {
    BoxError::Foreign { what }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    fn refused(files: Vec<OwnedFd>) -> String {
        network(files).unwrap_err().to_string()
    }

    #[test]
    fn foreign_descriptors_are_not_believed() {
        let pipe = || OwnedFd::from(io::pipe().unwrap().0);
        let unix = || OwnedFd::from(UnixStream::pair().unwrap().0);
        let listener = || OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
        let connected = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            OwnedFd::from(TcpStream::connect(listener.local_addr().unwrap()).unwrap())
        };
        let datagrams = || OwnedFd::from(UdpSocket::bind("127.0.0.1:0").unwrap());
        let number = "another number of descriptors";
        for files in [Vec::new(), vec![listener()], (0..10).map(|_| listener()).collect()] {
            assert!(refused(files).contains(number));
        }
        for first in [pipe(), unix(), listener(), connected(), datagrams()] {
            assert!(refused(vec![first, datagrams(), listener()]).contains("not the socket it was asked for"));
        }
        // The address is right, and the network is that of this process.
        if crate::runs_as_root()
            && let Ok(own) = TcpListener::bind(CAPTURE)
        {
            assert!(refused(vec![own.into(), datagrams(), listener()]).contains("another network"));
        }
    }
}
