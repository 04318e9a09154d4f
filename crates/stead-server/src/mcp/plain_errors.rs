//! Converts plain-text errors of the MCP library into problems.

use axum::body::{Body, to_bytes};
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use crate::problem::{Code, Problem};

/// Maximum size in bytes of the library's error text. A longer text is dropped.
const MOST_BYTES: usize = 4096;

/// Content type of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Json,
    Other,
}

impl Sent {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let json = |value: &http::HeaderValue| value.as_bytes().starts_with(b"application/json");
        if headers.get(CONTENT_TYPE).is_some_and(json) { Self::Json } else { Self::Other }
    }
}

/// Replaces the body of a plain-text error with a problem. Clients depend on the status: after a
/// 404 they open a new MCP session. So the status stays, except that a 415 for a JSON body becomes
/// 400.
pub(super) async fn shape(response: Response, sent: Sent) -> Response {
    let code = match response.status() {
        // The library also responds with 415 to JSON that is not a JSON-RPC message.
        StatusCode::UNSUPPORTED_MEDIA_TYPE if sent == Sent::Json => Code::InvalidRequest,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Code::UnsupportedMediaType,
        StatusCode::BAD_REQUEST => Code::InvalidRequest,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::NOT_ACCEPTABLE => Code::NotAcceptable,
        StatusCode::PAYLOAD_TOO_LARGE => Code::TooLarge,
        _ => return response,
    };
    let typed = response.headers().get(CONTENT_TYPE).is_some_and(|value| !value.as_bytes().starts_with(b"text/plain"));
    if typed {
        return response;
    }
    let (parts, body) = response.into_parts();
    match to_bytes(body, MOST_BYTES).await {
        Ok(text) => Problem::new(code, String::from_utf8_lossy(&text)).into_response(),
        Err(_) => Response::from_parts(parts, Body::empty()),
    }
}
