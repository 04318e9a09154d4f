//! Whether a request's body was read to its end.
//!
//! What is left of one stands in the way of the next request, so the connection cannot go on; who is told so does not find out by a broken one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

/// A body that leaves word when it has been read.
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
