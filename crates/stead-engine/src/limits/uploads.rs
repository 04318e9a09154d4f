//! Uploads, charged to their session while their bytes are outside its workspace.
//!
//! An upload is stored as a blob before it becomes a file. All uploads in progress of a session may
//! together take as much as its disk limit. A token thus cannot fill the server's disk with bytes
//! that its workspace could never hold.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use stead_providers::OperateError;
use stead_store::{BlobError, Upload};
use tokio::io::{AsyncRead, ReadBuf};

use crate::engine::Engine;
use crate::error::OpError;

/// The bytes of one upload. Dropping it returns them.
pub(crate) struct Charge {
    in_progress: Arc<AtomicU64>,
    limit: u64,
    taken: AtomicU64,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the session's uploads under way have more bytes than its disk limit of {limit} bytes; send less, or one after the other"
)]
struct OverLimit {
    limit: u64,
}

impl Charge {
    /// `in_progress` counts the bytes of all uploads of the session.
    pub(crate) fn new(in_progress: Arc<AtomicU64>, limit: u64) -> Self {
        Self { in_progress, limit, taken: AtomicU64::new(0) }
    }

    fn take(&self, bytes: u64) -> Result<(), OverLimit> {
        self.taken.fetch_add(bytes, Relaxed);
        let total = self.in_progress.fetch_add(bytes, Relaxed) + bytes;
        if total > self.limit { Err(OverLimit { limit: self.limit }) } else { Ok(()) }
    }

    /// Stores the content as a blob, within the limit. Refused content leaves nothing behind.
    pub(crate) async fn store(&self, engine: &Engine, content: impl AsyncRead + Unpin) -> Result<Upload, OpError> {
        let stored = engine.store().blobs().put_stream(Charged { content, charge: self }).await;
        stored.map_err(|error| match error {
            BlobError::Source { source } => match source.downcast::<OverLimit>() {
                Ok(over) => OperateError::NoRoom { reason: over.to_string() }.into(),
                Err(source) => BlobError::Source { source }.into(),
            },
            error => error.into(),
        })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.in_progress.fetch_sub(self.taken.load(Relaxed), Relaxed);
    }
}

struct Charged<'a, R> {
    content: R,
    charge: &'a Charge,
}

impl<R: AsyncRead + Unpin> AsyncRead for Charged<'_, R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.content).poll_read(context, buffer))?;
        let bytes = (buffer.filled().len() - before) as u64;
        Poll::Ready(self.charge.take(bytes).map_err(io::Error::other))
    }
}
