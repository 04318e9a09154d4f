//! Authentication and authorization.
//!
//! All routes require a token, except those in [`OPEN`]. An admin token allows everything. A
//! session token allows exactly the routes in [`SESSION_MAY`], and only for its own session. Other
//! sessions look as if they did not exist. Both lists are allowlists, so a new route is forbidden
//! until it is added here.

use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Method};
use stead_core::{Actor, Resource, SessionId};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::app::App;
use crate::listener::connection::Clocks;
use crate::listener::connections::Standing;
use crate::problem::{Code, Problem};

/// Paths that require no token.
pub(crate) const OPEN: &[&str] = &["/", "/healthz", "/readyz", "/openapi.json"];

/// Routes that a session token allows for its own session.
const SESSION_MAY: &[(Method, &str)] = &[
    (Method::GET, "/api/v1/sessions/{id}"),
    (Method::GET, "/api/v1/sessions/{id}/events"),
    (Method::POST, "/api/v1/sessions/{id}/events"),
    (Method::GET, "/api/v1/sessions/{id}/state"),
    (Method::GET, "/api/v1/sessions/{id}/usage"),
    (Method::GET, "/api/v1/sessions/{id}/runs"),
    (Method::POST, "/api/v1/sessions/{id}/runs"),
    (Method::GET, "/api/v1/sessions/{id}/runs/{run}"),
    (Method::POST, "/api/v1/sessions/{id}/runs/{run}/steps"),
    (Method::GET, "/api/v1/sessions/{id}/runs/{run}/steps/{step}"),
    (Method::POST, "/api/v1/sessions/{id}/runs/{run}/complete"),
    (Method::POST, "/api/v1/sessions/{id}/runs/{run}/fail"),
    (Method::POST, "/api/v1/sessions/{id}/runs/{run}/cancel"),
    (Method::POST, "/api/v1/sessions/{id}/runs/{run}/tool-calls"),
    (Method::POST, "/api/v1/sessions/{id}/tools/{tool}"),
    (Method::GET, "/api/v1/sessions/{id}/digest"),
    (Method::PUT, "/api/v1/sessions/{id}/digest"),
    (Method::POST, "/api/v1/sessions/{id}/digest:generate"),
    (Method::GET, "/api/v1/sessions/{id}/prompt"),
    (Method::GET, "/api/v1/sessions/{id}/files"),
    (Method::PUT, "/api/v1/sessions/{id}/files"),
    (Method::GET, "/api/v1/sessions/{id}/files/"),
    (Method::PUT, "/api/v1/sessions/{id}/files/"),
    (Method::GET, "/api/v1/sessions/{id}/files/{*path}"),
    (Method::PUT, "/api/v1/sessions/{id}/files/{*path}"),
    (Method::DELETE, "/api/v1/sessions/{id}/files/{*path}"),
    (Method::GET, "/api/v1/sessions/{id}/rewind"),
    (Method::GET, "/api/v1/sessions/{id}/blame/{*path}"),
    (Method::GET, "/mcp"),
    (Method::POST, "/mcp"),
    (Method::DELETE, "/mcp"),
    (Method::GET, "/mcp/line"),
    (Method::POST, "/api/v1/sessions/{id}/execs"),
    (Method::GET, "/api/v1/sessions/{id}/execs"),
    (Method::GET, "/api/v1/sessions/{id}/execs/{exec}"),
    (Method::DELETE, "/api/v1/sessions/{id}/execs/{exec}"),
    (Method::GET, "/api/v1/sessions/{id}/execs/{exec}/stream"),
    (Method::POST, "/api/v1/sessions/{id}/execs/{exec}/stdin"),
    (Method::POST, "/api/v1/sessions/{id}/execs/{exec}/signal"),
    (Method::POST, "/api/v1/sessions/{id}/execs/{exec}/resize"),
];

/// Routes without a session id in the path, which find the session by its token.
const OWN: &[&str] = &["/mcp", "/mcp/line"];

/// The authenticated caller, for handlers and for the log.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Actor);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Only open routes run without a caller, and none of their handlers extracts one.
        parts.extensions.get::<Caller>().cloned().ok_or_else(no_token)
    }
}

/// Middleware that adds the [`Caller`] to the request, or responds with an error.
pub(crate) async fn authenticate(State(app): State<App>, request: Request, next: Next) -> Response {
    if OPEN.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    if request.extensions().get::<Standing>() == Some(&Standing::OpenRoutesOnly) {
        let detail = "every connection of this server is in use by a request that is being answered";
        return Problem::new(Code::Capacity, detail).retry_after(5).into_response();
    }
    let (mut parts, body) = request.into_parts();
    let caller = match identify(&app, &parts.headers) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    if let Some(clocks) = parts.extensions.get::<Arc<Clocks>>() {
        clocks.authenticated();
    }
    let refusal = confine(&caller, &mut parts).await.err();
    parts.extensions.insert(caller.clone());
    let mut response = match refusal {
        Some(problem) => problem.into_response(),
        None => next.run(Request::from_parts(parts, body)).await,
    };
    response.extensions_mut().insert(caller);
    response
}

fn no_token() -> Problem {
    Problem::new(Code::Unauthorized, "this request carries no valid token")
        .hint("send Authorization: Bearer <token>; the first start wrote one to $STEAD_HOME/token")
}

fn identify(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    let token = bearer(headers).ok_or_else(no_token)?;
    if let Some(name) = admin(&app.config.admin_tokens, token) {
        return Ok(Caller(Actor::Admin { name }));
    }
    let session = app.engine.verify_session_token(token).ok_or_else(no_token)?;
    Ok(Caller(Actor::Session { session }))
}

/// Returns the token of the `Authorization: Bearer` header. Two such headers count as none.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns the name of a matching admin token. It compares all hashes in constant time, so that the
/// response time reveals nothing.
fn admin(tokens: &[(String, [u8; 32])], token: &str) -> Option<String> {
    let hash = blake3::hash(token.as_bytes());
    let mut found = u32::MAX;
    for (position, (_, known)) in (0u32..).zip(tokens) {
        let same: Choice = known[..].ct_eq(&hash.as_bytes()[..]);
        found.conditional_assign(&position, same);
    }
    tokens.get(usize::try_from(found).ok()?).map(|(name, _)| name.clone())
}

/// Restricts a session token to its own session and to the allowed routes.
async fn confine(caller: &Caller, parts: &mut Parts) -> Result<(), Problem> {
    let Caller(Actor::Session { session }) = caller else { return Ok(()) };
    let route = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = if parts.method == Method::HEAD { Method::GET } else { parts.method.clone() };
    let named = route.as_deref();
    let listed = named.is_some_and(|route| SESSION_MAY.iter().any(|entry| *entry == (method.clone(), route)));
    if !listed {
        return Err(Problem::new(
            Code::Forbidden,
            "a session token is valid for the routes of its own session that agents use, and not for this one",
        ));
    }
    // The path has no id. These routes use the session of the token.
    if OWN.contains(&route.as_deref().unwrap_or_default()) {
        return Ok(());
    }
    let params = RawPathParams::from_request_parts(parts, &()).await.ok();
    let asked = params.iter().flatten().find(|(name, _)| *name == "id").map(|(_, id)| id.to_owned());
    let asked = asked.unwrap_or_default();
    if asked.parse::<SessionId>().is_ok_and(|id| id == *session) {
        return Ok(());
    }
    Err(Problem::not_found(Resource::Session, &asked))
}
