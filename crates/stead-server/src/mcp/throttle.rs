//! Limits the concurrent messages of one `/mcp/line` connection to the limit of a token.
//!
//! The library starts a task for every message that it reads and for every response that it writes.
//! So the connection reads no further message while the maximum number is in progress, or while the
//! client does not read its responses. The server closes the connection of a client that reads
//! nothing for the write timeout.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::extract::json::Values;

pub(super) struct Throttle {
    most: usize,
    in_progress: AtomicUsize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Waker of the reader that waits for its turn.
    reader: Option<Waker>,
    stalled_since: Option<Instant>,
}

impl Throttle {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), in_progress: AtomicUsize::new(0), held: Mutex::default() })
    }

    /// Counts a message until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> MessageInProgress {
        self.in_progress.fetch_add(1, Relaxed);
        MessageInProgress(self.clone())
    }

    pub(super) fn stalled_for(&self, limit: Duration) -> bool {
        self.with(|held| held.stalled_since.is_some_and(|since| since.elapsed() >= limit))
    }

    /// Is ready when the connection may read another message.
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        self.with(|held| {
            if self.in_progress.load(Relaxed) < self.most && held.stalled_since.is_none() {
                return Poll::Ready(());
            }
            held.reader = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    fn wrote(&self, written: &Poll<io::Result<usize>>) {
        self.with(|held| match written {
            Poll::Ready(_) => {
                held.stalled_since = None;
                wake(held);
            }
            Poll::Pending => {
                held.stalled_since.get_or_insert_with(Instant::now);
            }
        });
    }

    fn with<T>(&self, work: impl FnOnce(&mut Held) -> T) -> T {
        // Each closure sets or takes whole fields, so a panic cannot leave them half changed.
        work(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn wake(held: &mut Held) {
    if let Some(reader) = held.reader.take() {
        reader.wake();
    }
}

/// Guard of a message in progress.
pub(super) struct MessageInProgress(Arc<Throttle>);

impl Drop for MessageInProgress {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Relaxed);
        self.0.with(wake);
    }
}

/// A reader that limits the length and the number of JSON values of each line, and reads no faster
/// than the server responds.
pub(super) struct Lines<R> {
    pub(super) read: R,
    pub(super) throttle: Arc<Throttle>,
    pub(super) longest: usize,
    pub(super) length: usize,
    pub(super) values: Values,
}

impl<R> Lines<R> {
    pub(super) fn new(read: R, throttle: Arc<Throttle>, longest: usize) -> Self {
        Self { read, throttle, longest, length: 0, values: Values::default() }
    }

    /// Checks new bytes. A line without an end would otherwise fill the memory.
    fn judge(&mut self, new: &[u8]) -> io::Result<()> {
        for piece in new.split_inclusive(|byte| *byte == b'\n') {
            self.length += piece.len();
            self.values.read(piece);
            self.values.check().map_err(io::Error::other)?;
            if self.length > self.longest {
                return Err(io::Error::other("a message is too long"));
            }
            if piece.ends_with(b"\n") {
                (self.length, self.values) = (0, Values::default());
            }
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.throttle.poll(cx));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.read).poll_read(cx, buffer))?;
        Poll::Ready(self.judge(&buffer.filled()[before..]))
    }
}

/// A writer that detects a client that does not read.
pub(super) struct Writer<W> {
    pub(super) write: W,
    pub(super) throttle: Arc<Throttle>,
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Writer<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.write).poll_write(cx, bytes);
        self.throttle.wrote(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn nothing_is_read_while_too_much_is_being_answered() {
        let throttle = Throttle::new(1);
        let mut lines = Lines::new(&b"one\n"[..], throttle.clone(), 100);
        let in_progress = throttle.begin();
        let mut buffer = [0; 8];
        let held = tokio::time::timeout(Duration::from_millis(20), lines.read(&mut buffer)).await;
        assert!(held.is_err(), "a message was read beyond the limit");
        drop(in_progress);
        assert_eq!(lines.read(&mut buffer).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn nothing_is_read_from_a_client_that_takes_nothing() {
        let throttle = Throttle::new(8);
        let (client, server) = tokio::io::duplex(4);
        let (read, write) = tokio::io::split(server);
        let mut writer = Writer { write, throttle: throttle.clone() };
        let mut lines = Lines::new(read, throttle.clone(), 100);
        let (mut taking, mut sending) = tokio::io::split(client);
        sending.write_all(b"one\n").await.unwrap();
        let stuck = tokio::time::timeout(Duration::from_millis(20), writer.write_all(b"0123456789")).await;
        assert!(stuck.is_err() && throttle.stalled_for(Duration::ZERO));
        let mut buffer = [0; 16];
        assert!(tokio::time::timeout(Duration::from_millis(20), lines.read(&mut buffer)).await.is_err());
        assert_eq!(taking.read(&mut buffer).await.unwrap(), 4);
        writer.write_all(b"45").await.unwrap();
        assert!(!throttle.stalled_for(Duration::ZERO));
        assert_eq!(lines.read(&mut buffer).await.unwrap(), 4);
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_refused() {
        let mut lines = Lines::new(&b"ab\ncdefgh"[..], Throttle::new(1), 4);
        let mut buffer = [0; 16];
        assert!(lines.read(&mut buffer).await.is_err());
        let mut lines = Lines::new(&b"abc\ndef\n"[..], Throttle::new(1), 4);
        assert_eq!(lines.read(&mut buffer).await.unwrap(), 8);
    }
}
