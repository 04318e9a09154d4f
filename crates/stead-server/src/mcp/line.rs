//! The protocol over one open connection, a message a line: what `stead mcp` carries between an agent's pipes and this server.
//!
//! `GET /mcp/line` with `Upgrade: mcp` turns the connection into that. Who asked, and for which session, is settled by then and does not change.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, StatusCode};
use hyper_util::rt::TokioIo;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Semaphore;

use super::Door;
use super::chosen::Caller;
use crate::app::App;
use crate::auth;
use crate::problem::{Code, Problem};

const PROTOCOL: &str = "mcp";
/// How many agents may be connected so at once.
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

pub(super) async fn upgrade(
    State(lines): State<Lines>,
    auth::Caller(actor): auth::Caller,
    mut request: Request,
) -> Response {
    let wanted = request.headers().get(UPGRADE).is_some_and(|value| value == PROTOCOL);
    if !wanted {
        return Problem::invalid("Upgrade", "this route wants the header Upgrade: mcp").into_response();
    }
    let caller = match Caller::new(actor, request.uri().query()) {
        Ok(caller) => caller,
        Err(error) => return Problem::invalid("session", error.message).into_response(),
    };
    let Ok(place) = lines.places.clone().try_acquire_owned() else {
        return Problem::new(Code::Capacity, "too many agents are connected").retry_after(30).into_response();
    };
    let upgrading = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        match upgrading.await {
            Ok(io) => serve(&lines.app, caller, TokioIo::new(io)).await,
            Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
        }
        drop(place);
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    response
}

/// Until the client goes or the server stops.
async fn serve(app: &App, caller: Caller, io: TokioIo<hyper::upgrade::Upgraded>) {
    let (read, write) = tokio::io::split(io);
    let read = ShortLines { read, length: 0, most: app.config.max_tool_body_bytes };
    let door = Door { app: app.clone(), caller: Some(caller) };
    let mut stopping = app.stopping.clone();
    let served = async {
        match rmcp::serve_server(door, AsyncRwTransport::new_server(read, write)).await {
            Ok(service) => drop(service.waiting().await),
            Err(error) => tracing::debug!(%error, "an agent did not get past the greeting"),
        }
    };
    tokio::select! {
        () = served => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}

/// Gives up on a line that does not end: it would be kept in memory until it does.
struct ShortLines<R> {
    read: R,
    length: usize,
    most: usize,
}

impl<R: AsyncRead + Unpin> AsyncRead for ShortLines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.read).poll_read(cx, buffer))?;
        let new = &buffer.filled()[before..];
        self.length = match memchr_last(new) {
            Some(end) => new.len() - end - 1,
            None => self.length + new.len(),
        };
        if self.length > self.most {
            return Poll::Ready(Err(io::Error::other("a message is too long")));
        }
        Poll::Ready(Ok(()))
    }
}

fn memchr_last(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|byte| *byte == b'\n')
}
