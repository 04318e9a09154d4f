//! Errors that the MCP library answers as plain text, in the form of all other problems.

use axum::body::{Body, to_bytes};
use axum::response::{IntoResponse as _, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use crate::problem::{Code, Problem};

/// Bytes of the longest text that the library answers.
const MOST_BYTES: usize = 4096;

/// The form of the request's body.
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

/// Keeps the status of an error without a content type and gives it a problem as its body. Clients go by the
/// status: 404 makes them open a new MCP session.
pub(super) async fn shape(response: Response, sent: Sent) -> Response {
    let code = match response.status() {
        // The library answers 415 also to JSON that is no message of JSON-RPC.
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
