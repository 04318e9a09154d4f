//! Per-token limits on concurrent requests and body bytes, so that one token cannot exhaust the
//! server.
//!
//! All clients on a machine share one loopback address, so the limit is per token and not per peer.
//! A request counts from its admission to the last byte of its response, which includes open event
//! streams. The bytes of a body in memory count for the same time.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use stead_core::Actor;

use crate::app::App;
use crate::auth::Caller;
use crate::config::ServerConfig;
use crate::problem::{Code, Problem};

/// Seconds after which a refused client should retry. Most requests take less.
const RETRY_AFTER: u32 = 1;

#[derive(Clone)]
pub(crate) struct Quotas(Arc<Inner>);

struct Inner {
    requests_per_session: usize,
    requests_per_admin: usize,
    body_bytes_per_token: usize,
    body_bytes: usize,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    by_token: HashMap<String, Share>,
    body_bytes: usize,
}

#[derive(Default)]
struct Share {
    requests: usize,
    body_bytes: usize,
}

impl Quotas {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self(Arc::new(Inner {
            requests_per_session: config.max_requests_per_session,
            requests_per_admin: config.max_requests_per_admin,
            body_bytes_per_token: config.max_body_memory_per_token,
            body_bytes: config.max_body_memory,
            used: Mutex::default(),
        }))
    }

    fn admit(&self, actor: &Actor) -> Result<Ticket, Problem> {
        let most = match actor {
            Actor::Session { .. } => self.0.requests_per_session,
            Actor::Admin { .. } | Actor::User { .. } | Actor::System => self.0.requests_per_admin,
        };
        let token = actor.to_string();
        let mut used = self.lock();
        let share = used.by_token.entry(token.clone()).or_default();
        if share.requests >= most {
            let detail = format!("this token has {most} requests and streams open, and may not have more");
            return Err(Problem::new(Code::TooManyRequests, detail)
                .hint("close a stream or wait for an answer; the operator's guide names the setting")
                .retry_after(RETRY_AFTER));
        }
        share.requests += 1;
        drop(used);
        Ok(Ticket { quotas: self.clone(), token, body_bytes: AtomicUsize::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        // The lock only guards sums, so a panic elsewhere cannot leave them half changed.
        self.0.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An admitted request. Dropping the ticket returns its share of the quota.
pub(crate) struct Ticket {
    quotas: Quotas,
    token: String,
    body_bytes: AtomicUsize,
}

impl Ticket {
    /// Counts body bytes that stay in memory until the response is complete.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Problem> {
        let limits = &self.quotas.0;
        let mut used = self.quotas.lock();
        let all = used.body_bytes + bytes;
        let share = used.by_token.entry(self.token.clone()).or_default();
        let own = share.body_bytes + bytes;
        if own > limits.body_bytes_per_token {
            let detail =
                format!("the bodies of this token's requests have more than {} bytes", limits.body_bytes_per_token);
            return Err(Problem::new(Code::TooManyRequests, detail)
                .hint("send fewer large requests at once")
                .retry_after(RETRY_AFTER));
        }
        if all > limits.body_bytes {
            let detail = "the server holds as many bytes of request bodies as it may";
            return Err(Problem::new(Code::Capacity, detail).retry_after(RETRY_AFTER));
        }
        share.body_bytes = own;
        used.body_bytes = all;
        self.body_bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let held = self.body_bytes.load(Relaxed);
        let mut used = self.quotas.lock();
        used.body_bytes = used.body_bytes.saturating_sub(held);
        let Some(share) = used.by_token.get_mut(&self.token) else { return };
        share.body_bytes = share.body_bytes.saturating_sub(held);
        share.requests = share.requests.saturating_sub(1);
        if share.requests == 0 {
            used.by_token.remove(&self.token);
        }
    }
}

/// Middleware after authentication. It admits the request with a [`Ticket`], or responds with 429.
pub(crate) async fn admit(State(app): State<App>, mut request: Request, next: Next) -> Response {
    // Open routes have no caller. Their responses are small, and the connection table limits them.
    let Some(Caller(actor)) = request.extensions().get::<Caller>().cloned() else { return next.run(request).await };
    let ticket = match app.quotas.admit(&actor) {
        Ok(ticket) => Arc::new(ticket),
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(ticket.clone());
    let response = next.run(request).await;
    response.map(|body| Body::new(Counted { body, _ticket: ticket }))
}

/// A response body that holds the ticket until its last byte. It forwards the size hint, from which
/// hyper derives `Content-Length`.
struct Counted {
    body: Body,
    _ticket: Arc<Ticket>,
}

impl hyper::body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas(requests: usize, bytes: usize) -> Quotas {
        let config = ServerConfig {
            max_requests_per_session: requests,
            max_requests_per_admin: 2 * requests,
            max_body_memory_per_token: bytes,
            max_body_memory: 2 * bytes,
            ..ServerConfig::default()
        };
        Quotas::new(&config)
    }

    fn session(bits: u128) -> Actor {
        Actor::Session { session: stead_core::SessionId::from_bits(bits) }
    }

    #[test]
    fn one_token_cannot_take_what_another_needs() {
        let quotas = quotas(2, 100);
        let held: Vec<Ticket> = (0..2).map(|_| quotas.admit(&session(1)).ok().unwrap()).collect();
        assert_eq!(quotas.admit(&session(1)).err().unwrap().code(), Code::TooManyRequests);
        assert!(quotas.admit(&session(2)).is_ok());
        drop(held);
        assert!(quotas.admit(&session(1)).is_ok(), "a request that ended is given back");
        assert!(quotas.lock().by_token.is_empty(), "nothing is kept of a token without requests");
    }

    #[test]
    fn bytes_are_counted_per_token_and_in_all() {
        let quotas = quotas(8, 100);
        let (first, second, third) = (
            quotas.admit(&session(1)).ok().unwrap(),
            quotas.admit(&session(2)).ok().unwrap(),
            quotas.admit(&session(3)).ok().unwrap(),
        );
        first.hold(100).unwrap();
        assert_eq!(first.hold(1).unwrap_err().code(), Code::TooManyRequests);
        second.hold(100).unwrap();
        assert_eq!(third.hold(1).unwrap_err().code(), Code::Capacity);
        drop(second);
        third.hold(100).unwrap();
        drop((first, third));
        assert_eq!(quotas.lock().body_bytes, 0);
    }
}
