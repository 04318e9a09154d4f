//! Extractors for request bodies. They enforce a size limit and a timeout, parse JSON, and convert
//! it to the type of the route.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};
use serde_json::Value;
use stead_core::parse::{self, FieldPath, Fields, Read};

use crate::app::App;
use crate::extract::json;
use crate::problem::{Code, Problem};
use crate::quota::Ticket;

/// A JSON body parsed as `T`, with a hash for idempotency. The hash does not depend on whitespace
/// or the order of keys.
pub(crate) struct Json<T> {
    pub(crate) value: T,
    pub(crate) hash: [u8; 32],
}

impl<T: Read> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let value = read(request, app.config.max_body_bytes, app.config.body_timeout).await?;
        let hash = *blake3::hash(&stead_core::canonical::bytes(&value)).as_bytes();
        Ok(Self { value: parse::read(value)?, hash })
    }
}

/// An optional JSON body with the size limit of tool calls. No body means an empty object.
pub(crate) struct MaybeJson<T> {
    pub(crate) value: T,
    pub(crate) hash: [u8; 32],
}

impl<T: Read> FromRequest<App> for MaybeJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let bytes = collect(request, app.config.max_tool_body_bytes, app.config.body_timeout).await?;
        let value = if bytes.is_empty() { Value::Object(serde_json::Map::new()) } else { parsed(&bytes)? };
        let hash = *blake3::hash(&stead_core::canonical::bytes(&value)).as_bytes();
        Ok(Self { value: parse::read(value)?, hash })
    }
}

/// The body of a route that has no parameters. It may be absent, and any field in it is an error.
pub(crate) struct NoFields;

impl Read for NoFields {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        Fields::of(value, at)?.done();
        Some(Self)
    }
}

/// The arguments of a tool call: a JSON object. The tool validates its fields.
pub(crate) struct Arguments(pub(crate) Value);

impl FromRequest<App> for Arguments {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let value = read(request, app.config.max_tool_body_bytes, app.config.body_timeout).await?;
        if value.is_object() { Ok(Self(value)) } else { Err(Problem::invalid("", "expected an object of arguments")) }
    }
}

async fn read(request: Request, limit: usize, timeout: Duration) -> Result<Value, Problem> {
    let bytes = collect(request, limit, timeout).await?;
    if bytes.is_empty() {
        return Err(Problem::invalid("", "a JSON body is required"));
    }
    parsed(&bytes)
}

fn parsed(bytes: &Bytes) -> Result<Value, Problem> {
    json::parse(bytes).map_err(|error| Problem::invalid("", format!("the body is not valid JSON: {error}")))
}

async fn collect(request: Request, limit: usize, timeout: Duration) -> Result<Bytes, Problem> {
    expect_json(request.headers())?;
    let ticket = request.extensions().get::<Arc<Ticket>>().cloned();
    gather(request.into_body(), ticket.as_deref(), limit, timeout).await
}

/// Reads a whole body into memory, within a size limit and a timeout. The bytes count against the
/// quota of the request's token.
pub(crate) async fn gather(
    body: Body,
    ticket: Option<&Ticket>,
    limit: usize,
    timeout: Duration,
) -> Result<Bytes, Problem> {
    let arriving = async {
        let mut pieces = body.into_data_stream();
        let mut whole = BytesMut::new();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|_| Problem::invalid("", "the body ended before it was complete"))?;
            if whole.len() + piece.len() > limit {
                return Err(Problem::new(Code::TooLarge, format!("the body has more than {limit} bytes")));
            }
            ticket.map_or(Ok(()), |ticket| ticket.hold(piece.len()))?;
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    };
    tokio::time::timeout(timeout, arriving).await.unwrap_or_else(|_| {
        let detail = format!("the body was not complete after {} seconds", timeout.as_secs());
        Err(Problem::new(Code::BodyTimeout, detail))
    })
}

/// Requires unencoded JSON in UTF-8. A body without a content type is accepted.
fn expect_json(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("unreadable").trim());
    if let Some(coding) = text(CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
        let detail = format!("send the body as it is, not encoded as {coding:?}");
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    let Some(given) = text(CONTENT_TYPE) else { return Ok(()) };
    let mut parts = given.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let utf8 = parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    });
    if media_type.eq_ignore_ascii_case("application/json") && utf8 {
        return Ok(());
    }
    let shown: String = given.chars().take(80).collect();
    let detail = format!("the body must be application/json in UTF-8, not {shown:?}");
    Err(Problem::new(Code::UnsupportedMediaType, detail))
}
