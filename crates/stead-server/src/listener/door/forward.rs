//! Forwards one HTTP request to a program in a box, and its answer back.

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use stead_engine::PortConnection;
use tokio::io::{AsyncRead, AsyncWrite};

use super::headers::{Side, from_box, towards_box};
use crate::problem::{Code, OwnForm, Problem};
use crate::quota::Ticket;
use std::sync::Arc;

/// Maximum size of the head of an answer.
const MOST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 256;
/// Bytes in each direction of an upgraded connection.
const BUFFER: usize = 32 << 10;
const WEBSOCKET: &str = "websocket";

/// The part of a request that depends on its door.
pub(crate) struct Forwarding {
    /// Path and query for the program.
    pub(crate) path: String,
    pub(crate) host: HeaderValue,
    pub(crate) forwarded_host: HeaderValue,
    pub(crate) scheme: &'static str,
    pub(crate) side: Side,
}

/// Sends a request to the program. Every request has its own connection, so that programs share no
/// state between clients.
pub(crate) async fn forward(
    connection: PortConnection,
    mut request: Request,
    forwarding: Forwarding,
) -> Result<Response, Problem> {
    let upgrades = wants_websocket(request.method(), request.headers());
    let client = upgrades.then(|| hyper::upgrade::on(&mut request));
    let ticket = request.extensions().get::<Arc<Ticket>>().cloned();
    let Forwarding { path, host, forwarded_host, scheme, side } = forwarding;
    let (mut parts, body) = request.into_parts();
    parts.uri = path.parse().map_err(|_| Problem::invalid("path", "is not a valid request path"))?;
    parts.version = Version::HTTP_11;
    parts.extensions = http::Extensions::new();
    towards_box(&mut parts.headers, &side, host, forwarded_host, scheme);
    if upgrades {
        announce_upgrade(&mut parts.headers);
    }
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MOST_HEAD).max_headers(MOST_HEADERS);
    let (mut sender, driver) = builder.handshake(TokioIo::new(connection)).await.map_err(|error| broken(&error))?;
    tokio::spawn(async move {
        if let Err(error) = driver.with_upgrades().await {
            tracing::debug!(%error, "a connection to a port of a box ended");
        }
    });
    let mut response = sender.send_request(http::Request::from_parts(parts, body)).await.map_err(|e| broken(&e))?;
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switched {
        let Some(client) = client.filter(|_| is_websocket(response.headers())) else {
            return Err(Problem::new(
                Code::BadGateway,
                "the program in the box switched to a protocol that was not asked for",
            ));
        };
        let program = hyper::upgrade::on(&mut response);
        tokio::spawn(async move {
            join(client, program).await;
            drop(ticket);
        });
    }
    let (mut parts, body) = response.into_parts();
    from_box(&mut parts.headers, &side);
    if switched {
        announce_upgrade(&mut parts.headers);
    }
    // Errors of the program are passed on as they are.
    parts.extensions.insert(OwnForm);
    Ok(Response::from_parts(parts, Body::new(body)))
}

fn broken(error: &hyper::Error) -> Problem {
    tracing::debug!(%error, "a program in a box did not answer");
    let detail = "the program in the box closed the connection, or did not answer as HTTP/1.1 says";
    Problem::new(Code::BadGateway, detail)
        .hint("the box's own logs may tell more; `stead forward` passes any TCP protocol")
}

fn is_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()))
}

fn wants_websocket(method: &Method, headers: &HeaderMap) -> bool {
    let connection = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let upgrade = connection.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"));
    *method == Method::GET && upgrade && is_websocket(headers)
}

fn announce_upgrade(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(WEBSOCKET));
}

async fn join(client: OnUpgrade, program: OnUpgrade) {
    match tokio::try_join!(client, program) {
        Ok((client, program)) => copy(client, TokioIo::new(program)).await,
        Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
    }
}

/// Copies bytes in both directions until both ends have closed, or the connection to the box is
/// cut.
pub(crate) async fn copy(client: Upgraded, mut program: impl AsyncRead + AsyncWrite + Unpin) {
    let mut client = TokioIo::new(client);
    let copied = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut program, BUFFER, BUFFER).await;
    if let Err(error) = copied {
        tracing::debug!(%error, "a connection to a port of a box ended");
    }
}
