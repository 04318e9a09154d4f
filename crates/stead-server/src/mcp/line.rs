//! MCP over one connection with one message per line. `stead mcp` uses it to connect an agent's
//! standard input and output with this server.
//!
//! `GET /mcp/line` with `Upgrade: mcp` upgrades the connection. Its caller and session are fixed
//! from then on. It ends when its token does.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, StatusCode};
use hyper_util::rt::TokioIo;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::sync::Semaphore;

use super::McpSession;
use super::chosen::Caller;
use super::throttle::{Lines as ShortLines, Throttle, Writer};
use crate::app::App;
use crate::auth;
use crate::problem::{Code, Problem};
use crate::quota::Ticket;

const PROTOCOL: &str = "mcp";
/// Maximum number of open connections of this kind.
const MOST: usize = 1024;

#[derive(Clone)]
pub(super) struct Lines {
    pub(super) app: App,
    places: Arc<Semaphore>,
}

impl Lines {
    pub(super) fn new(app: App) -> Self {
        Self { app, places: Arc::new(Semaphore::new(MOST)) }
    }
}

pub(super) async fn upgrade(State(lines): State<Lines>, identity: auth::Identity, mut request: Request) -> Response {
    let wanted = request.headers().get(UPGRADE).is_some_and(|value| value == PROTOCOL);
    if !wanted {
        return Problem::invalid("Upgrade", "this route requires the header Upgrade: mcp").into_response();
    }
    let caller = match Caller::new(identity.actor, request.uri()) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    let Ok(place) = lines.places.clone().try_acquire_owned() else {
        return Problem::new(Code::Capacity, "too many agents are connected").retry_after(30).into_response();
    };
    // An open connection counts as one request of its token.
    let ticket = request.extensions().get::<Arc<Ticket>>().cloned();
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        match upgrading.await {
            Ok(io) => tokio::select! {
                () = serve(&lines.app, caller, TokioIo::new(io)) => {}
                () = identity.lifetime.ended(&lines.app.engine) => {}
            },
            Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
        }
        drop((place, ticket));
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    response
}

/// Serves until the client disconnects, reads nothing for the write timeout, or the server stops.
async fn serve(app: &App, caller: Caller, io: TokioIo<hyper::upgrade::Upgraded>) {
    let (read, write) = tokio::io::split(io);
    let throttle = Throttle::new(app.config.max_requests_per_session);
    let read = ShortLines::new(read, throttle.clone(), app.config.max_tool_body_bytes);
    let write = Writer { write, throttle: throttle.clone() };
    let handler = McpSession::new(app, Some(caller), Some(throttle.clone()));
    let mut stopping = app.stopping.clone();
    let served = async {
        match rmcp::serve_server(handler, AsyncRwTransport::new_server(read, write)).await {
            Ok(service) => drop(service.waiting().await),
            Err(error) => tracing::debug!(%error, "an agent did not get past the greeting"),
        }
    };
    tokio::select! {
        () = served => {}
        () = stalled(&throttle, app.config.write_timeout) => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}

async fn stalled(throttle: &Throttle, limit: Duration) {
    let pace = (limit / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
    while !throttle.stalled_for(limit) {
        tokio::time::sleep(pace).await;
    }
}
