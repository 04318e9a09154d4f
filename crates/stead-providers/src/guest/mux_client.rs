//! One connection to a box for all short requests: many at once, each answered by its number.
//!
//! The client connects on first use and reconnects after the connection was lost; requests on a
//! lost connection fail. Each follower of output has its own connection, so that a slow reader
//! delays no other request.
//!
//! This is not the blocking [`stead_box::Connection`], because the two serve different callers. A
//! command may run for minutes, and waiting for it here costs no thread. Files travel by descriptor
//! or in pieces on a separate connection. That code holds the workspace's lock on a blocking
//! thread, in a crate without an async runtime. Both share the frames, the messages, the greeting
//! and the errors.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stead_box::BoxError;
use stead_box::protocol::{Answer, Ask, Decoder, Reply, Request, encode_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, oneshot};
use tokio::task::AbortHandle;

use super::guest_box::GuestBox;
use super::off_thread;
use crate::contract::error::ProviderError;

/// Timeout of a checkpoint for getting exclusive use of the box. Checkpoints follow every call.
pub(super) const CHECKPOINT_WAITS: Duration = Duration::from_secs(2);
/// The same for a snapshot or a restore that a user asked for.
pub(super) const SNAPSHOT_WAITS: Duration = Duration::from_secs(10);
/// Timeout of requests that later requests wait for. A silent box must not block them for ever.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

type Response = (Answer, Vec<u8>);

pub(super) struct MuxClient {
    guest_box: Arc<dyn GuestBox>,
    wire: tokio::sync::Mutex<Option<Arc<Wire>>>,
    /// Held shared while a request is sent or a file operation runs, and exclusively by an
    /// operation that may stop the box. Once it has the request, the box itself knows that it is
    /// busy.
    gate: RwLock<()>,
}

/// A connection that was alive when last checked.
struct Wire {
    write: tokio::sync::Mutex<OwnedWriteHalf>,
    next: AtomicU64,
    waiting: Arc<Waiting>,
    reader: AbortHandle,
}

/// The pending requests by number; `None` once the connection is lost.
struct Waiting(Mutex<Option<HashMap<u64, oneshot::Sender<Response>>>>);

impl Waiting {
    fn with<T>(&self, work: impl FnOnce(&mut Option<HashMap<u64, oneshot::Sender<Response>>>) -> T) -> T {
        // Each use is one insert, remove or take, so a panic cannot leave the map inconsistent.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request whose answer is not here yet. It keeps its connection open, so that the answer arrives
/// after later requests use another one. If the box ends, so does the connection.
struct Pending {
    receiver: oneshot::Receiver<Response>,
    _wire: Arc<Wire>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl MuxClient {
    pub(super) fn new(guest_box: Arc<dyn GuestBox>) -> Self {
        Self { guest_box, wire: tokio::sync::Mutex::default(), gate: RwLock::default() }
    }

    /// Returns a guard that keeps the box from being stopped.
    pub(super) async fn use_box(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().await
    }

    /// Makes the next request connect again, because the box may be a new one.
    pub(super) async fn reconnect(&self) {
        *self.wire.lock().await = None;
    }

    /// Waits for exclusive use of the box; `None` on a timeout. Later requests wait until the guard
    /// is dropped.
    pub(super) async fn alone(&self, within: Duration) -> Option<Alone<'_>> {
        let guard = tokio::time::timeout(within, self.gate.write()).await.ok()?;
        Some(Alone { client: self, _guard: guard })
    }

    /// Sends a request and waits for its answer. A refusal is an error.
    pub(super) async fn ask(&self, ask: Ask, body: &[u8]) -> Result<Response, BoxError> {
        let used = self.use_box().await;
        let pending = self.send(ask, body).await?;
        drop(used);
        receive(pending).await
    }

    /// Sends a short request and waits for its answer, with a timeout.
    pub(super) async fn ask_soon(&self, ask: Ask) -> Result<Response, BoxError> {
        let used = self.use_box().await;
        let pending = self.send_soon(ask).await?;
        drop(used);
        receive_soon(pending).await
    }

    async fn send_soon(&self, ask: Ask) -> Result<Pending, BoxError> {
        match tokio::time::timeout(ANSWER_WITHIN, self.send(ask, &[])).await {
            Ok(sent) => sent,
            Err(_) => {
                // A part of the request may have been written.
                self.reconnect().await;
                Err(silent())
            }
        }
    }

    async fn send(&self, ask: Ask, body: &[u8]) -> Result<Pending, BoxError> {
        let wire = self.wire().await?;
        let id = wire.next.fetch_add(1, Ordering::Relaxed);
        let frame = encode_request(&Request { id, ask }, body)?;
        let (sender, receiver) = oneshot::channel();
        wire.waiting.with(|waiting| waiting.as_mut().map(|waiting| waiting.insert(id, sender))).ok_or_else(lost)?;
        wire.write.lock().await.write_all(&frame).await.map_err(BoxError::Lost)?;
        Ok(Pending { receiver, _wire: wire })
    }

    async fn wire(&self) -> Result<Arc<Wire>, BoxError> {
        let mut kept = self.wire.lock().await;
        if let Some(wire) = kept.as_ref().filter(|wire| wire.waiting.with(|waiting| waiting.is_some())) {
            return Ok(wire.clone());
        }
        let (read, write) = connect(&self.guest_box).await?.into_split();
        let waiting = Arc::new(Waiting(Mutex::new(Some(HashMap::new()))));
        let reader = tokio::spawn(listen(read, waiting.clone())).abort_handle();
        // The greeting used number 1.
        let wire = Arc::new(Wire { write: write.into(), next: AtomicU64::new(2), waiting, reader });
        *kept = Some(wire.clone());
        Ok(wire)
    }
}

/// Exclusive use of the box: no other request is sent meanwhile.
pub(super) struct Alone<'a> {
    client: &'a MuxClient,
    _guard: RwLockWriteGuard<'a, ()>,
}

impl Alone<'_> {
    /// Sends a request and waits for its answer, with a timeout.
    pub(super) async fn ask(&self, ask: Ask) -> Result<Response, BoxError> {
        receive_soon(self.client.send_soon(ask).await?).await
    }

    /// Makes the next request connect again, because the box may have been stopped. A box that goes
    /// on answers the requests that are pending.
    pub(super) async fn hang_up(self) {
        self.client.reconnect().await;
    }
}

fn lost() -> BoxError {
    BoxError::Lost(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
}

fn silent() -> BoxError {
    BoxError::Lost(std::io::Error::from(std::io::ErrorKind::TimedOut))
}

async fn receive_soon(pending: Pending) -> Result<Response, BoxError> {
    tokio::time::timeout(ANSWER_WITHIN, receive(pending)).await.unwrap_or_else(|_| Err(silent()))
}

/// Waits for an answer. A refusal is an error.
async fn receive(pending: Pending) -> Result<Response, BoxError> {
    // Not by field: the connection has to stay open until the answer is here.
    let Pending { receiver, _wire } = pending;
    let (answer, body) = receiver.await.map_err(|_| lost())?;
    Ok((answer.or_refusal()?, body))
}

/// Opens a new connection, with the greeting done.
pub(super) async fn connect(guest_box: &Arc<dyn GuestBox>) -> Result<UnixStream, BoxError> {
    let guest_box = guest_box.clone();
    let stream = off_thread(move || Ok(guest_box.connect()?.into_stream())).await.map_err(|error| match error {
        ProviderError::Box { source } => source,
        _ => BoxError::Lost(std::io::Error::other("the work was interrupted")),
    })?;
    stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream)).map_err(BoxError::Lost)
}

/// Delivers each answer to its pending request, until the connection ends.
async fn listen(mut read: OwnedReadHalf, waiting: Arc<Waiting>) {
    let mut frames = Frames::default();
    while let Ok((Reply { id, answer }, body)) = frames.next(&mut read).await {
        let who = waiting.with(|waiting| waiting.as_mut().and_then(|waiting| waiting.remove(&id)));
        if let Some(who) = who {
            let _ = who.send((answer, body));
        }
    }
    waiting.with(Option::take);
}

/// Reads frames from a stream. The box is untrusted: lengths are checked, and an invalid frame is
/// an error.
#[derive(Default)]
pub(super) struct Frames {
    decoder: Decoder,
}

impl Frames {
    pub(super) async fn next(&mut self, from: &mut OwnedReadHalf) -> Result<(Reply, Vec<u8>), BoxError> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            if let Some(frame) = self.decoder.take()? {
                return Ok(frame);
            }
            match from.read(&mut buffer).await.map_err(BoxError::Lost)? {
                0 => return Err(BoxError::Lost(std::io::Error::from(std::io::ErrorKind::UnexpectedEof))),
                count => self.decoder.push(&buffer[..count]),
            }
        }
    }
}
