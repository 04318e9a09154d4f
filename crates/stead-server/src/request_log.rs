//! Writes one log line and one metric sample per request, with ids that correlate them with other
//! logs.
//!
//! The log only contains names from closed sets and validated ids. It contains no bodies, headers
//! or raw paths, so that clients can neither break a log line nor leak a secret into it.

use std::time::Instant;

use axum::extract::{MatchedPath, RawPathParams, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use stead_core::SessionId;
use tracing::Instrument as _;

use crate::auth::Caller;
use crate::extract::headers;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The outermost middleware.
pub(crate) async fn record(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = known_method(request.method());
    let route = request.extensions().get::<MatchedPath>().map_or("none".to_owned(), |path| path.as_str().to_owned());
    let Ids { request_id, traceparent } = Ids::of(request.headers());
    let trace_id = traceparent.as_deref().and_then(headers::trace_id).unwrap_or("none");
    let span = tracing::info_span!("request", request_id, trace_id);

    let (request, session) = named_session(request).await;
    let mut response = next.run(request).instrument(span.clone()).await;

    let (status, duration) = (response.status().as_u16(), started.elapsed());
    let actor = response.extensions().get::<Caller>().map_or("none".to_owned(), |Caller(actor)| actor.to_string());
    let session = session.map_or("none".to_owned(), |id| id.to_string());
    span.in_scope(|| tracing::info!(method, route, status, ?duration, actor, session, "answered"));
    metrics::counter!("stead_http_requests_total", "route" => route.clone(), "method" => method, "status" => status.to_string())
        .increment(1);
    metrics::histogram!("stead_http_request_duration_seconds", "route" => route, "method" => method).record(duration);

    echo(&mut response, REQUEST_ID, &request_id);
    if let Some(traceparent) = traceparent {
        echo(&mut response, TRACEPARENT, &traceparent);
    }
    response
}

/// Ids of a request: the client's if they are well formed. Otherwise a new request id and no
/// `traceparent`.
struct Ids {
    request_id: String,
    traceparent: Option<String>,
}

impl Ids {
    fn of(headers: &HeaderMap) -> Self {
        let given = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let request_id = match given(REQUEST_ID).filter(|id| headers::is_request_id(id)) {
            Some(id) => id.to_owned(),
            None => uuid::Uuid::now_v7().simple().to_string(),
        };
        let traceparent = given(TRACEPARENT).filter(|text| headers::trace_id(text).is_some()).map(str::to_owned);
        Self { request_id, traceparent }
    }
}

/// Maps the method to a closed set, because clients can send any method and each label value costs
/// memory.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

async fn named_session(request: Request) -> (Request, Option<SessionId>) {
    use axum::extract::FromRequestParts as _;
    let (mut parts, body) = request.into_parts();
    let params = RawPathParams::from_request_parts(&mut parts, &()).await.ok();
    let id = params.iter().flatten().find(|(name, _)| *name == "id").and_then(|(_, id)| id.parse().ok());
    (Request::from_parts(parts, body), id)
}

fn echo(response: &mut Response, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        response.headers_mut().insert(name, value);
    }
}
