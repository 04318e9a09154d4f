//! Bodies that are changed or checked while they pass.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// What happens to the bytes of a body.
pub(super) trait Filter: Send + Unpin {
    /// Takes a piece and returns the bytes that may go on. `None` ends the body with an error.
    fn take(&mut self, piece: &[u8]) -> Option<Bytes>;

    /// Returns the bytes that were held back, at the end of the body.
    fn rest(&mut self) -> Bytes;

    /// Returns true if bytes are held back.
    fn holds(&self) -> bool;
}

/// The body must not go on, or it could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body was refused")]
    Refused,
    #[error("the body could not be read")]
    Read(#[source] hyper::Error),
}

/// A body behind a filter. Trailers are dropped: no filter reads them.
pub(super) struct Filtered<B, F> {
    body: B,
    filter: F,
    ended: bool,
}

impl<B, F> Filtered<B, F> {
    pub(super) fn new(body: B, filter: F) -> Self {
        Self { body, filter, ended: false }
    }
}

impl<B, F> Body for Filtered<B, F>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
    F: Filter,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        loop {
            if this.ended {
                return Poll::Ready(None);
            }
            match std::task::ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    match this.filter.take(&data) {
                        Some(passed) if passed.is_empty() => {}
                        Some(passed) => return Poll::Ready(Some(Ok(Frame::data(passed)))),
                        None => {
                            this.ended = true;
                            return Poll::Ready(Some(Err(BodyError::Refused)));
                        }
                    }
                }
                Some(Err(error)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(BodyError::Read(error))));
                }
                None => {
                    this.ended = true;
                    let rest = this.filter.rest();
                    return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || (self.body.is_end_stream() && !self.filter.holds())
    }

    /// A filter keeps the number of bytes.
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
