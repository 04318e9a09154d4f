//! Who asks, and whether they may.
//!
//! Everything needs a token except the paths in [`OPEN`]. An admin token opens everything; a session's own token opens exactly [`SESSION_MAY`] of that
//! session, and to its holder no other session exists. Both lists are closed: a new route is shut until it is named here.

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
use crate::connection::Clocks;
use crate::connections::Standing;
use crate::problem::{Code, Problem};

/// What anyone may see.
pub(crate) const OPEN: &[&str] = &["/", "/healthz", "/readyz", "/openapi.json"];

/// What the holder of a session's token may do with that session.
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

/// The routes that find the session by its token alone.
const OWN: &[&str] = &["/mcp", "/mcp/line"];

/// The authenticated party, for handlers and for the log.
#[derive(Debug, Clone)]
pub(crate) struct Caller(pub(crate) Actor);

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // Only an open route reaches its handler without a caller, and none of those asks for one.
        parts.extensions.get::<Caller>().cloned().ok_or_else(no_token)
    }
}

/// Middleware: lets the request through with its [`Caller`], or answers why not.
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

/// The token of the one `Authorization: Bearer` header; two headers are none.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The name of the admin token this is. Hashes are compared whole and all of them, so time tells nothing of where they differ.
fn admin(tokens: &[(String, [u8; 32])], token: &str) -> Option<String> {
    let hash = blake3::hash(token.as_bytes());
    let mut found = u32::MAX;
    for (position, (_, known)) in (0u32..).zip(tokens) {
        let same: Choice = known[..].ct_eq(&hash.as_bytes()[..]);
        found.conditional_assign(&position, same);
    }
    tokens.get(usize::try_from(found).ok()?).map(|(name, _)| name.clone())
}

/// Holds the holder of a session's token to that session.
async fn confine(caller: &Caller, parts: &mut Parts) -> Result<(), Problem> {
    let Caller(Actor::Session { session }) = caller else { return Ok(()) };
    let route = parts.extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = if parts.method == Method::HEAD { Method::GET } else { parts.method.clone() };
    let named = route.as_deref();
    let listed = named.is_some_and(|route| SESSION_MAY.iter().any(|entry| *entry == (method.clone(), route)));
    if !listed {
        return Err(Problem::new(
            Code::Forbidden,
            "a session token is good for that session's tools, files and events only",
        ));
    }
    // No id in the path: what is there is the holder's own session's.
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
