//! Connects the server to ports of the box.
//!
//! Process 1 connects to the port and passes the connected socket to the server. In a box whose
//! kernel cannot pass descriptors it copies the bytes itself ([`Relay`]).

pub(super) mod listening;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::{Errno, read, write};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, ipproto, shutdown, socket_with, sockopt};

use crate::protocol::{GuestError, GuestErrorKind};

/// Time for a program to accept the connection. The kernel accepts it at once, unless the
/// program's queue is full. It then tries again after one and after three seconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Maximum number of connections in progress, and of relays.
const MOST: usize = 128;
/// Bytes that a relay holds in each direction.
const BUFFER: usize = 32 << 10;

/// The connections that process 1 makes for the server.
#[derive(Default)]
pub(super) struct Ports {
    connecting: Vec<Connecting>,
    relays: Vec<Relay>,
}

/// A socket to poll, by the number of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polled {
    Connecting(u64),
    /// The server's end of a relay.
    Outside(u64),
    /// The program's end of a relay.
    Inside(u64),
}

/// The answer to a request for a connection.
pub(super) struct Settled {
    pub(super) connection: u64,
    pub(super) request: u64,
    pub(super) result: Result<OwnedFd, GuestError>,
}

struct Connecting {
    connection: u64,
    request: u64,
    port: u16,
    socket: OwnedFd,
    address: IpAddr,
    deadline: Instant,
}

enum Attempt {
    Connected(OwnedFd),
    Pending(OwnedFd),
    Refused,
}

impl Ports {
    pub(super) fn is_empty(&self) -> bool {
        self.connecting.is_empty() && self.relays.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.connecting.iter().map(|connecting| connecting.deadline).min()
    }

    /// Starts a connection to a port. Returns the answer if there is one already.
    pub(super) fn connect(&mut self, connection: u64, request: u64, port: u16) -> Option<Settled> {
        let settled = |result| Some(Settled { connection, request, result });
        if self.connecting.len() >= MOST || self.relays.len() >= MOST {
            let message = format!("{MOST} connections to ports of the box are open");
            return settled(Err(GuestError::new(GuestErrorKind::ResourceExhausted, message)));
        }
        match self.attempt(connection, request, port, Ipv4Addr::LOCALHOST.into()) {
            None => None,
            Some(result) => settled(result),
        }
    }

    /// Tries an address, and then `::1`. Returns `None` while the connection is in progress.
    fn attempt(
        &mut self,
        connection: u64,
        request: u64,
        port: u16,
        address: IpAddr,
    ) -> Option<Result<OwnedFd, GuestError>> {
        match attempt(SocketAddr::new(address, port)) {
            Ok(Attempt::Connected(socket)) => Some(Ok(socket)),
            Ok(Attempt::Pending(socket)) => {
                let deadline = Instant::now() + CONNECT_WITHIN;
                self.connecting.push(Connecting { connection, request, port, socket, address, deadline });
                None
            }
            Ok(Attempt::Refused) if address.is_ipv4() => {
                self.attempt(connection, request, port, Ipv6Addr::LOCALHOST.into())
            }
            Ok(Attempt::Refused) => {
                let message = format!("nothing listens on {port} in the box");
                Some(Err(GuestError::new(GuestErrorKind::NothingListens, message)))
            }
            Err(error) => {
                let message = format!("the box has no socket for a connection: {error}");
                Some(Err(GuestError::new(GuestErrorKind::ResourceExhausted, message)))
            }
        }
    }

    /// Continues all connections in progress. Returns those that are settled.
    pub(super) fn settle(&mut self, now: Instant) -> Vec<Settled> {
        let mut settled = Vec::new();
        for pending in std::mem::take(&mut self.connecting) {
            let Connecting { connection, request, port, address, deadline, .. } = pending;
            let result = match progress(&pending.socket) {
                Progress::Connected if !is_connected_to_itself(&pending.socket) => Some(Ok(pending.socket)),
                Progress::Pending if now < deadline => {
                    self.connecting.push(pending);
                    None
                }
                Progress::Pending => {
                    let message = format!("the program on port {port} does not accept connections");
                    Some(Err(GuestError::new(GuestErrorKind::TimedOut, message)))
                }
                Progress::Connected | Progress::Refused if address.is_ipv4() => {
                    self.attempt(connection, request, port, Ipv6Addr::LOCALHOST.into())
                }
                Progress::Connected | Progress::Refused => {
                    let message = format!("nothing listens on {port} in the box");
                    Some(Err(GuestError::new(GuestErrorKind::NothingListens, message)))
                }
            };
            settled.extend(result.map(|result| Settled { connection, request, result }));
        }
        settled
    }

    /// Copies the bytes between a connection of the server and a port from now on.
    pub(super) fn relay(&mut self, number: u64, outside: UnixStream, inside: OwnedFd) {
        let relay = Relay { number, outside, inside, inward: Flow::default(), outward: Flow::default() };
        self.relays.push(relay);
    }

    pub(super) fn polled(&self) -> Vec<(Polled, PollFd<'_>)> {
        let connecting = self
            .connecting
            .iter()
            .map(|pending| (Polled::Connecting(pending.connection), PollFd::new(&pending.socket, PollFlags::OUT)));
        connecting.chain(self.relays.iter().flat_map(Relay::polled)).collect()
    }

    /// Copies what a relay can copy now. No-op for a connection in progress, which
    /// [`Ports::settle`] handles.
    pub(super) fn copy(&mut self, polled: Polled, flags: PollFlags) {
        let number = match polled {
            Polled::Connecting(_) => return,
            Polled::Outside(number) | Polled::Inside(number) => number,
        };
        let gone = polled == Polled::Outside(number) && flags.intersects(PollFlags::HUP | PollFlags::ERR);
        self.relays.retain_mut(|relay| {
            let gone = gone && relay.outside_interest().is_empty();
            relay.number != number || (!gone && relay.copy())
        });
    }
}

fn attempt(to: SocketAddr) -> rustix::io::Result<Attempt> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = match socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP)) {
        // The kernel has no IPv6.
        Err(Errno::AFNOSUPPORT) => return Ok(Attempt::Refused),
        socket => socket?,
    };
    Ok(match rustix::net::connect(&socket, &to) {
        Ok(()) if is_connected_to_itself(&socket) => Attempt::Refused,
        Ok(()) => Attempt::Connected(socket),
        Err(Errno::INPROGRESS | Errno::INTR) => Attempt::Pending(socket),
        Err(_) => Attempt::Refused,
    })
}

/// Returns true if the kernel chose the destination as the socket's own port. TCP then connects the
/// socket to itself, although nothing listens.
fn is_connected_to_itself(socket: &OwnedFd) -> bool {
    let address = |any: rustix::net::SocketAddrAny| SocketAddr::try_from(any).ok();
    let own = rustix::net::getsockname(socket).ok().and_then(address);
    let peer = rustix::net::getpeername(socket).ok().flatten().and_then(address);
    own.is_none() || own == peer
}

enum Progress {
    Connected,
    Pending,
    Refused,
}

fn progress(socket: &OwnedFd) -> Progress {
    let mut fds = [PollFd::new(socket, PollFlags::OUT)];
    let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut fds, Some(&none)) {
        Ok(0) | Err(_) => Progress::Pending,
        Ok(_) => match sockopt::socket_error(socket) {
            Ok(Ok(())) => Progress::Connected,
            _ => Progress::Refused,
        },
    }
}

/// Copies bytes between a connection of the server and a port.
struct Relay {
    number: u64,
    outside: UnixStream,
    inside: OwnedFd,
    /// From the server to the port.
    inward: Flow,
    /// From the port to the server.
    outward: Flow,
}

/// One direction of a relay.
#[derive(Default)]
struct Flow {
    bytes: Vec<u8>,
    written: usize,
    stage: Stage,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    /// The source has ended. The bytes that are left still have to be written.
    Ending,
    Ended,
}

impl Flow {
    fn wants_to_read(&self) -> bool {
        self.stage == Stage::Open && self.bytes.is_empty()
    }

    fn wants_to_write(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Reads and writes once. Returns false if the connection is broken.
    fn copy(&mut self, from: impl AsFd, to: impl AsFd) -> bool {
        if self.wants_to_read() {
            let mut buffer = [0; BUFFER];
            match read(from, &mut buffer) {
                Ok(0) => self.stage = Stage::Ending,
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        if self.wants_to_write() {
            match write(&to, &self.bytes[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return false,
            }
            if self.written == self.bytes.len() {
                self.bytes.clear();
                self.written = 0;
            }
        }
        if self.stage == Stage::Ending && self.bytes.is_empty() {
            self.stage = Stage::Ended;
            return shutdown(to, Shutdown::Write).is_ok();
        }
        true
    }
}

impl Relay {
    fn outside_interest(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.inward.wants_to_read());
        flags.set(PollFlags::OUT, self.outward.wants_to_write());
        flags
    }

    fn polled(&self) -> impl Iterator<Item = (Polled, PollFd<'_>)> {
        let mut inside = PollFlags::empty();
        inside.set(PollFlags::IN, self.outward.wants_to_read());
        inside.set(PollFlags::OUT, self.inward.wants_to_write());
        // The kernel always reports a hang-up. The one of the server ends the relay. The one of the
        // program must not, because bytes of it may still have to be written, so it is not polled.
        let inside = (!inside.is_empty()).then(|| (Polled::Inside(self.number), PollFd::new(&self.inside, inside)));
        let outside = PollFd::new(&self.outside, self.outside_interest());
        std::iter::once((Polled::Outside(self.number), outside)).chain(inside)
    }

    /// Returns false if the relay has ended.
    fn copy(&mut self) -> bool {
        self.inward.copy(&self.outside, &self.inside)
            && self.outward.copy(&self.inside, &self.outside)
            && !(self.inward.stage == Stage::Ended && self.outward.stage == Stage::Ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn settled(ports: &mut Ports, port: u16) -> Result<OwnedFd, GuestError> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut found = ports.connect(1, 2, port);
        while found.is_none() && Instant::now() < deadline {
            found = ports.settle(Instant::now()).pop();
        }
        let settled = found.expect("the connection is settled within 30 seconds");
        assert_eq!((settled.connection, settled.request), (1, 2));
        settled.result
    }

    #[test]
    fn a_connection_reaches_a_server_on_either_loopback_address() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            let mut ports = Ports::default();
            let mut stream = TcpStream::from(settled(&mut ports, port).unwrap());
            stream.set_nonblocking(false).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            server.write_all(b"hello").unwrap();
            drop(server);
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert_eq!(text, "hello", "{address}");
            assert!(ports.is_empty());
        }
    }

    #[test]
    fn a_port_without_a_server_is_said_to_have_none() {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error = settled(&mut Ports::default(), unused).unwrap_err();
        assert_eq!(error.kind, GuestErrorKind::NothingListens);
        assert_eq!(error.message, format!("nothing listens on {unused} in the box"));
    }

    #[test]
    fn a_relay_copies_both_ways_and_ends_with_both_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ports = Ports::default();
        let socket = settled(&mut ports, listener.local_addr().unwrap().port()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        ports.relay(9, far, socket);
        let big = vec![7; 3 << 20];
        let sent = big.clone();
        let outside = std::thread::spawn(move || {
            near.write_all(&sent).unwrap();
            near.shutdown(std::net::Shutdown::Write).unwrap();
            let mut back = Vec::new();
            near.read_to_end(&mut back).unwrap();
            back
        });
        let inside = std::thread::spawn(move || {
            let mut got = Vec::new();
            server.read_to_end(&mut got).unwrap();
            server.write_all(b"done").unwrap();
            got.len()
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while !ports.is_empty() && Instant::now() < deadline {
            let ready: Vec<_> = {
                let polled = ports.polled();
                let (names, mut fds): (Vec<_>, Vec<_>) = polled.into_iter().unzip();
                let wait = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
                rustix::event::poll(&mut fds, Some(&wait)).unwrap();
                names.into_iter().zip(fds.iter().map(PollFd::revents)).filter(|(_, flags)| !flags.is_empty()).collect()
            };
            for (name, flags) in ready {
                ports.copy(name, flags);
            }
        }
        assert!(ports.is_empty(), "the relay ended within a minute");
        assert_eq!((inside.join().unwrap(), outside.join().unwrap()), (big.len(), b"done".to_vec()));
    }
}
