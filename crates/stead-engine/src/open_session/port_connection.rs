//! A connection to a port of a session's box, within the limits of the session.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use stead_providers::PortSocket;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::open_session::Active;

/// Maximum number of open connections to the ports of one session.
pub(crate) const MOST_CONNECTIONS: usize = 128;
/// Time without a byte in either direction after which a connection is cut.
pub(crate) const IDLE: Duration = Duration::from_secs(300);

/// A connection to a port of a box. It is cut when the session, its box, the caller's token or the
/// server ends, and when no byte passes for a while.
pub struct PortConnection {
    socket: PortSocket,
    /// Completes when the connection has to end.
    cut: BoxFuture<'static, ()>,
    idle: Pin<Box<Sleep>>,
    last: Instant,
    received: u64,
    sent: u64,
    _place: OwnedSemaphorePermit,
    _active: Active,
}

impl PortConnection {
    pub(crate) fn new(
        socket: PortSocket,
        cut: BoxFuture<'static, ()>,
        place: OwnedSemaphorePermit,
        active: Active,
    ) -> Self {
        let (last, idle) = (Instant::now(), Box::pin(tokio::time::sleep(IDLE)));
        metrics::counter!("stead_port_connections_total").increment(1);
        Self { socket, cut, idle, last, received: 0, sent: 0, _place: place, _active: active }
    }

    fn poll_cut(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the session or the token ended")),
            Poll::Pending => Ok(()),
        }
    }

    /// Returns an error if no byte has passed for too long. Otherwise the task wakes up in time for
    /// the next look.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.idle.as_mut().poll(cx).is_ready() {
            let due = self.last + IDLE;
            if due <= Instant::now() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no byte passed for five minutes"));
            }
            self.idle.as_mut().reset(due);
        }
        Ok(())
    }
}

impl Drop for PortConnection {
    fn drop(&mut self) {
        metrics::counter!("stead_port_bytes_total", "direction" => "out").increment(self.received);
        metrics::counter!("stead_port_bytes_total", "direction" => "in").increment(self.sent);
    }
}

impl AsyncRead for PortConnection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.poll_cut(cx)?;
        let before = buffer.filled().len();
        match Pin::new(&mut this.socket).poll_read(cx, buffer) {
            Poll::Ready(result) => {
                this.last = Instant::now();
                this.received += (buffer.filled().len() - before) as u64;
                Poll::Ready(result)
            }
            Poll::Pending => {
                this.poll_idle(cx)?;
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for PortConnection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.poll_cut(cx)?;
        match Pin::new(&mut this.socket).poll_write(cx, bytes) {
            Poll::Ready(result) => {
                this.last = Instant::now();
                this.sent += result.as_ref().map_or(0, |count| *count as u64);
                Poll::Ready(result)
            }
            Poll::Pending => {
                this.poll_idle(cx)?;
                Poll::Pending
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
