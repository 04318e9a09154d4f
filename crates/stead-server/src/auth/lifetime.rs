//! Ends requests and open streams when their token ends.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use stead_core::{Timestamp, TokenId};
use tokio_util::sync::CancellationToken;

/// Longest sleep until the next look at the wall clock, which may be set forward, and at the token,
/// whose secret or role may have ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The life of the token of one request. Tokens of the configuration have no end.
#[derive(Clone, Default)]
pub(crate) struct Lifetime {
    pub(crate) revoked: Option<CancellationToken>,
    pub(crate) until: Option<Timestamp>,
    /// Hash of a secret that a rotation or the loss of its role may end.
    pub(crate) secret_hash: Option<String>,
    /// The token that asked for a session token, which ends with it.
    pub(crate) asked_by: Option<TokenId>,
}

impl Lifetime {
    /// Completes when the token is revoked or expires.
    pub(crate) async fn ended(&self, engine: &stead_engine::Engine) {
        if self.is_endless() {
            return std::future::pending().await;
        }
        let revoked = async {
            match &self.revoked {
                Some(revoked) => revoked.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let expired = async {
            while self.is_valid(engine) {
                let left = self.until.map_or(u64::MAX, |until| until.millis_since(engine.now()));
                tokio::time::sleep(LOOK_EVERY.min(Duration::from_millis(left.max(1)))).await;
            }
        };
        tokio::select! { () = revoked => {}, () = expired => {} }
    }

    /// Returns true if the token was revoked or has expired.
    pub(crate) fn has_ended(&self, engine: &stead_engine::Engine) -> bool {
        self.revoked.as_ref().is_some_and(CancellationToken::is_cancelled) || !self.is_valid(engine)
    }

    fn is_valid(&self, engine: &stead_engine::Engine) -> bool {
        self.until.is_none_or(|until| until > engine.now())
            && self.secret_hash.as_ref().is_none_or(|hash| engine.is_valid_secret(hash))
            && self.asked_by.is_none_or(|token| engine.is_valid_token(token))
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.revoked.is_none() && self.until.is_none()
    }

    /// Wraps a response body, so that it breaks off when the token ends.
    pub(crate) fn limit(self, engine: stead_engine::Engine, body: Body) -> Body {
        if self.is_endless() {
            return body;
        }
        let ended = Box::pin(async move { self.ended(&engine).await });
        Body::new(Limited { body, ended })
    }
}

struct Limited {
    body: Body,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl hyper::body::Body for Limited {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.ended.as_mut().poll(cx).is_ready() {
            // An error makes the connection break off, so that the client does not take the part
            // for the whole.
            return Poll::Ready(Some(Err(axum::Error::new("the token has ended"))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
