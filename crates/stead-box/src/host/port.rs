//! Connections to ports of a box.

use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::fs::{FileType, fstat};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketType, getpeername, ipproto, recvmsg,
    sockopt,
};

use super::client::Connection;
use crate::error::BoxError;
use crate::protocol::{Answer, Ask, ProtocolError};
use crate::sys::network_namespace;

/// Timeout of the guest's answer. The guest itself waits for five seconds.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// A connection to a port of a box.
#[derive(Debug)]
pub enum PortStream {
    /// A TCP socket of the box's network namespace. Use it only with calls that do not block,
    /// because the guest could have kept a duplicate and can change its mode.
    Socket(OwnedFd),
    /// A connection to the guest, which copies the bytes.
    Relay(UnixStream),
}

impl Connection {
    /// Connects to a port of the box, and uses up this connection.
    pub fn connect_port(mut self, port: u16) -> Result<PortStream, BoxError> {
        let (answer, mut descriptors) = self.ask_for_descriptors(Ask::Connect { port }, ANSWER_WITHIN)?;
        match (answer, descriptors.pop(), descriptors.is_empty()) {
            (Answer::Connected, Some(socket), true) => {
                verify(&socket, port).map_err(|what| BoxError::Protocol(ProtocolError::Unexpected { what }))?;
                Ok(PortStream::Socket(socket))
            }
            (Answer::Relayed, None, _) => {
                let stream = self.into_stream();
                stream.set_read_timeout(None).map_err(BoxError::Lost)?;
                stream.set_write_timeout(None).map_err(BoxError::Lost)?;
                Ok(PortStream::Relay(stream))
            }
            _ => Err(ProtocolError::Unexpected { what: "to a request for a connection" }.into()),
        }
    }
}

/// Checks that a descriptor of a box is a connection to that port, and not in this process's own
/// network.
fn verify(socket: &OwnedFd, port: u16) -> Result<(), &'static str> {
    let is_socket = fstat(socket).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Socket);
    if !is_socket {
        return Err("with a descriptor that is not a socket");
    }
    let family = sockopt::socket_domain(socket);
    let is_tcp = matches!(family, Ok(AddressFamily::INET | AddressFamily::INET6))
        && sockopt::socket_type(socket) == Ok(SocketType::STREAM)
        && sockopt::socket_protocol(socket) == Ok(Some(ipproto::TCP));
    if !is_tcp || sockopt::socket_acceptconn(socket) != Ok(false) {
        return Err("with a socket that is not a TCP connection");
    }
    let peer = getpeername(socket).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
    if !peer.is_some_and(|peer| peer.port() == port && peer.ip().is_loopback()) {
        return Err("with a socket that is not connected to the port");
    }
    match network_namespace::is_own(socket) {
        Ok(false) => Ok(()),
        Ok(true) => Err("with a socket of the server's own network"),
        Err(_) => Err("with a socket whose network namespace cannot be read"),
    }
}

/// Reads from a socket and collects the descriptors that come with the bytes.
pub(super) struct DescriptorReader<'a> {
    stream: &'a UnixStream,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl<'a> DescriptorReader<'a> {
    pub(super) fn new(stream: &'a UnixStream) -> Self {
        Self { stream, descriptors: Vec::new() }
    }
}

impl Read for DescriptorReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // One more than a valid answer has, so that a second one is noticed. The kernel closes the
        // rest.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(self.stream.as_fd(), &mut [IoSliceMut::new(buffer)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.descriptors.extend(files);
            }
        }
        Ok(received.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::client::Lending;
    use crate::protocol::{Reply, Request, encode, receive};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::io::{IoSlice, Write};
    use std::net::{TcpListener, TcpStream};

    /// A guest that answers a request for a connection with these descriptors.
    fn answered(port: u16, answer: Answer, descriptors: Vec<OwnedFd>) -> Result<PortStream, BoxError> {
        let (near, mut far) = UnixStream::pair().unwrap();
        let guest = std::thread::spawn(move || {
            let (hello, _): (Request, _) = receive(&mut far).unwrap();
            let version = crate::protocol::VERSION;
            far.write_all(&encode(&Reply { id: hello.id, answer: Answer::Hello { version } }, &[]).unwrap()).unwrap();
            let (request, _): (Request, _) = receive(&mut far).unwrap();
            assert_eq!(request.ask, Ask::Connect { port });
            let frame = encode(&Reply { id: request.id, answer }, &[]).unwrap();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(10))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            if !borrowed.is_empty() {
                assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
            }
            sendmsg(&far, &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL).unwrap();
            far
        });
        let connection = Connection::greet(near, Lending::ByDescriptor).unwrap();
        let result = connection.connect_port(port);
        drop(guest.join().unwrap());
        result
    }

    fn refusal(port: u16, answer: Answer, descriptors: Vec<OwnedFd>) -> String {
        format!("{:?}", answered(port, answer, descriptors).unwrap_err())
    }

    #[test]
    fn foreign_descriptors_are_not_believed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connected = || OwnedFd::from(TcpStream::connect(("127.0.0.1", port)).unwrap());
        let (pipe, _end) = io::pipe().unwrap();
        let unix = UnixStream::pair().unwrap().0;
        let own = if crate::runs_as_root() { "own network" } else { "network namespace" };
        let wrong: [(OwnedFd, &str); 5] = [
            (pipe.into(), "not a socket"),
            (unix.into(), "not a TCP connection"),
            (listener.try_clone().unwrap().into(), "not a TCP connection"),
            (connected(), own),
            (std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into(), "not a TCP connection"),
        ];
        for (descriptor, expected) in wrong {
            let refused = refusal(port, Answer::Connected, vec![descriptor]);
            assert!(refused.contains(expected), "{refused}");
        }
        // A connection to another port, none, two, ten, and one where none is expected.
        assert!(refusal(1, Answer::Connected, vec![connected()]).contains("not connected to the port"));
        for descriptors in [vec![], vec![connected(), connected()], (0..10).map(|_| connected()).collect()] {
            assert!(refusal(port, Answer::Connected, descriptors).contains("to a request for a connection"));
        }
        assert!(refusal(port, Answer::Relayed, vec![connected()]).contains("to a request for a connection"));
        assert!(refusal(port, Answer::Done, vec![]).contains("to a request for a connection"));
        assert!(matches!(answered(port, Answer::Relayed, vec![]).unwrap(), PortStream::Relay(_)));
    }
}
