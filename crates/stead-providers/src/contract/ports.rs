//! The contract of ports: connections from outside to servers in a box.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use stead_box::PortStream;
pub use stead_box::protocol::ListeningPort;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Errors of a connection to a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    #[error("this provider's workspaces have no box, and so no ports")]
    Unsupported,
    #[error("nothing listens on {port} in the box")]
    NothingListens { port: u16 },
    /// The program's queue of connections is full.
    #[error("the program on port {port} of the box does not accept connections")]
    NotAccepting { port: u16 },
    #[error("{message}")]
    Exhausted { message: String },
    /// The box no longer answers.
    #[error("the box is gone: {reason}")]
    Lost { reason: String },
}

/// Ports of a box.
#[async_trait]
pub trait Ports: Send + Sync {
    /// Connects to a port on the box's loopback, within a few seconds.
    ///
    /// Promises: the connection reaches a program in the box and nothing outside of it.
    async fn connect(&self, port: u16) -> Result<PortSocket, PortError>;

    /// Lists the ports that [`Ports::connect`] can reach now, in order.
    async fn listening(&self) -> Result<Vec<ListeningPort>, PortError>;
}

/// A connection to a port of a box.
pub struct PortSocket(Transport);

enum Transport {
    /// A socket of the box's network namespace. Every call on it says that it must not block: a
    /// box that kept a duplicate can change the mode of the socket.
    Lent(TcpStream),
    /// The guest copies the bytes.
    Relayed(UnixStream),
}

impl PortSocket {
    pub(crate) fn new(stream: PortStream) -> io::Result<Self> {
        Ok(Self(match stream {
            PortStream::Socket(socket) => {
                let stream = std::net::TcpStream::from(socket);
                stream.set_nonblocking(true)?;
                Transport::Lent(TcpStream::from_std(stream)?)
            }
            PortStream::Relay(stream) => {
                stream.set_nonblocking(true)?;
                Transport::Relayed(UnixStream::from_std(stream)?)
            }
        }))
    }
}

/// Returns true for an error after which the call is repeated, once the socket is ready again.
fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl AsyncRead for PortSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let socket = match &mut self.get_mut().0 {
            Transport::Relayed(stream) => return Pin::new(stream).poll_read(cx, buffer),
            Transport::Lent(socket) => socket,
        };
        loop {
            ready!(socket.poll_read_ready(cx))?;
            let free = buffer.initialize_unfilled();
            let received = socket.try_io(Interest::READABLE, || Ok(recv(&*socket, free, RecvFlags::DONTWAIT)?.1));
            match received {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for PortSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let socket = match &mut self.get_mut().0 {
            Transport::Relayed(stream) => return Pin::new(stream).poll_write(cx, bytes),
            Transport::Lent(socket) => socket,
        };
        loop {
            ready!(socket.poll_write_ready(cx))?;
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match socket.try_io(Interest::WRITABLE, || Ok(send(&*socket, bytes, flags)?)) {
                Err(error) if is_temporary(&error) => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Transport::Relayed(stream) => Pin::new(stream).poll_shutdown(cx),
            Transport::Lent(socket) => Poll::Ready(match shutdown(&*socket, Shutdown::Write) {
                // The program has reset the connection.
                Ok(()) | Err(Errno::NOTCONN) => Ok(()),
                Err(error) => Err(error.into()),
            }),
        }
    }
}
