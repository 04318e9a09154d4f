//! The box's side of a connection, with the counts and limits of the session.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::copy::Activity;
use crate::egress::Shared;
use crate::tally::Counters;

/// A stream of a box. Every byte is counted, and the rate is limited.
pub(crate) struct Metered {
    /// Bytes of the box that were read before, and that come first.
    first: Vec<u8>,
    stream: TcpStream,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    activity: Arc<Activity>,
    /// The box has sent more than it may.
    spent: Arc<AtomicBool>,
    wait: Waits,
}

impl Metered {
    /// `first` are bytes that were already read from the stream.
    pub(crate) fn new(stream: TcpStream, first: Vec<u8>, shared: Arc<Shared>, counters: Arc<Counters>) -> Self {
        Self {
            first,
            stream,
            shared,
            counters,
            activity: Arc::new(Activity::new()),
            spent: Arc::default(),
            wait: Waits::default(),
        }
    }

    pub(crate) fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.activity)
    }

    /// Returns the flag that says that the box has sent more than it may.
    pub(crate) fn spent(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.spent)
    }

    fn poll_bytes(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..count]);
        self.first.drain(..count);
        Poll::Ready(Ok(()))
    }
}

/// Pauses that the rate of bytes demands.
#[derive(Default)]
struct Waits {
    read: Option<Pin<Box<Sleep>>>,
    write: Option<Pin<Box<Sleep>>>,
}

/// Returns when the pause is over.
fn over(wait: &mut Option<Pin<Box<Sleep>>>, context: &mut Context<'_>) -> Poll<()> {
    if let Some(sleep) = wait {
        ready!(sleep.as_mut().poll(context));
        *wait = None;
    }
    Poll::Ready(())
}

fn pause(wait: Duration) -> Option<Pin<Box<Sleep>>> {
    (!wait.is_zero()).then(|| Box::pin(tokio::time::sleep(wait)))
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(over(&mut this.wait.read, context));
        let before = buffer.filled().len();
        ready!(this.poll_bytes(context, buffer))?;
        let count = buffer.filled().len() - before;
        this.activity.moved();
        if this.shared.budget.spend(count as u64).is_err() {
            this.spent.store(true, Relaxed);
            buffer.set_filled(before);
            return Poll::Ready(Err(io::Error::other("the box has sent more bytes than it may")));
        }
        this.counters.bytes_out.fetch_add(count as u64, Relaxed);
        this.wait.read = pause(this.shared.budget.out.take_and_wait(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(over(&mut this.wait.write, context));
        let count = ready!(Pin::new(&mut this.stream).poll_write(context, bytes))?;
        this.activity.moved();
        this.counters.bytes_in.fetch_add(count as u64, Relaxed);
        this.wait.write = pause(this.shared.budget.inwards.take_and_wait(count));
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
