//! Tracks whether a request's body was read to its end.
//!
//! An unread rest of a body blocks the next request on the connection, so the server must close it.
//! The response then says so with `Connection: close`, so that the client does not run into a
//! broken connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// A request body that records when it has been read to its end.
pub(crate) struct Tracked {
    body: Incoming,
    unread: Arc<AtomicBool>,
}

impl Tracked {
    pub(crate) fn new(body: Incoming) -> (Self, Arc<AtomicBool>) {
        let unread = Arc::new(AtomicBool::new(!body.is_end_stream()));
        (Self { body, unread: unread.clone() }, unread)
    }
}

impl Body for Tracked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.unread.store(false, Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
