//! Binds each MCP session to the token that opened it, and limits the number of MCP sessions per
//! token.
//!
//! The id of an MCP session is a random string that clients may log. Without the token that opened
//! the session, the id gives no access and does not reveal that the session exists.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde::Deserialize;
use stead_core::{Actor, Resource};

use super::chosen;
use super::plain_errors;
use crate::app::App;
use crate::auth::Caller;
use crate::extract::body::gather;
use crate::extract::json::Values;
use crate::problem::{Code, OwnForm, Problem};
use crate::quota::Ticket;

const HEADER: &str = "mcp-session-id";
/// Key prefix of an entry whose session has no id yet. Session ids of the library do not contain
/// this character.
const OPENING: &str = "opening:";

#[derive(Clone)]
pub(super) struct Owners {
    app: App,
    sessions: Arc<LocalSessionManager>,
    by_id: Arc<Mutex<HashMap<String, Owner>>>,
    limits: Limits,
}

#[derive(Clone, Copy)]
struct Limits {
    per_session: usize,
    in_all: usize,
    body_bytes: usize,
    body_timeout: Duration,
}

/// The token that opened an MCP session, and the query string of that request. With an admin token
/// the query names the Stead session.
#[derive(Clone, PartialEq, Eq)]
struct Owner {
    actor: Actor,
    query: Option<String>,
}

impl Owners {
    pub(super) fn new(sessions: Arc<LocalSessionManager>, app: &App) -> Self {
        let config = &app.config;
        let limits = Limits {
            per_session: config.max_mcp_sessions_per_session,
            in_all: config.max_mcp_sessions,
            body_bytes: config.max_tool_body_bytes,
            body_timeout: config.body_timeout,
        };
        Self { app: app.clone(), sessions, by_id: Arc::default(), limits }
    }

    fn of(&self, id: &str) -> Option<Owner> {
        self.lock().get(id).cloned()
    }

    /// Reserves an MCP session for this token.
    async fn open(&self, owner: &Owner) -> Result<Opening, Problem> {
        match self.reserve(owner) {
            // Ended sessions count until `forget_ended` removes them.
            Err(_) => {
                self.forget_ended().await;
                self.reserve(owner)
            }
            reserved => reserved,
        }
    }

    fn reserve(&self, owner: &Owner) -> Result<Opening, Problem> {
        let most = match owner.actor {
            Actor::Session { .. } => self.limits.per_session,
            Actor::Admin { .. } | Actor::User { .. } | Actor::System => self.limits.in_all.div_ceil(2),
        };
        let mut by_id = self.lock();
        let own = by_id.values().filter(|other| other.actor == owner.actor).count();
        let refused = if own >= most {
            Some((Code::TooManyRequests, format!("this token has {most} MCP sessions open, and may not have more")))
        } else if by_id.len() >= self.limits.in_all {
            Some((Code::Capacity, "too many MCP sessions are open".to_owned()))
        } else {
            None
        };
        if let Some((code, detail)) = refused {
            return Err(Problem::new(code, detail)
                .hint("end one with DELETE /mcp, or wait until an idle one ends")
                .retry_after(30));
        }
        let key = format!("{OPENING}{}", uuid::Uuid::now_v7().simple());
        by_id.insert(key.clone(), owner.clone());
        Ok(Opening { owners: self.clone(), key })
    }

    async fn forget_ended(&self) {
        let known: Vec<String> = self.lock().keys().filter(|id| !id.starts_with(OPENING)).cloned().collect();
        for id in known {
            if !self.sessions.has_session(&id.as_str().into()).await.unwrap_or(true) {
                self.lock().remove(&id);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Owner>> {
        // Each change inserts or removes a whole entry, so a panic elsewhere cannot leave one half
        // changed.
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reservation. It counts as a session until it is dropped.
struct Opening {
    owners: Owners,
    key: String,
}

impl Opening {
    fn opened(&self, id: String, owner: Owner) {
        self.owners.lock().insert(id, owner);
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.owners.lock().remove(&self.key);
    }
}

/// Middleware that only lets a token use its own MCP sessions, and records the owner of a new one.
/// JSON-RPC errors keep their form. Plain-text errors of the library become problems.
pub(super) async fn check(owners: State<Owners>, request: Request, next: Next) -> Response {
    let sent = plain_errors::Sent::of(request.headers());
    let ends = request.method() == Method::DELETE;
    let mut response = match admit(owners, request, next).await {
        Ok(response) => plain_errors::shape(response, sent).await,
        Err(problem) => problem.into_response(),
    };
    if ends && response.status() == StatusCode::ACCEPTED {
        // The session has ended when the library responds, and clients take 202 for a failure.
        *response.status_mut() = StatusCode::NO_CONTENT;
        *response.body_mut() = Body::empty();
    }
    response.extensions_mut().insert(OwnForm);
    response
}

async fn admit(State(owners): State<Owners>, request: Request, next: Next) -> Result<Response, Problem> {
    let Some(asking) = asking(&request) else { return Ok(next.run(request).await) };
    let chosen = chosen::Caller::new(asking.actor.clone(), request.uri())?;
    let id = session(request.headers());
    if let Some(id) = &id
        && owners.of(id).is_some_and(|owner| owner != asking)
    {
        return Err(Problem::not_found(Resource::McpSession, id));
    }
    let (request, kind) = read(request, owners.limits).await?;
    if id.is_some() || kind == Kind::Other {
        return Ok(next.run(request).await);
    }
    // Check this only for new MCP sessions: to a client with an MCP session, a 404 means that its
    // MCP session has ended.
    stead_engine::ops::session(&owners.app.engine, chosen.session()).await?;
    let opening = owners.open(&asking).await?;
    let response = next.run(request).await;
    if let Some(id) = session(response.headers()) {
        opening.opened(id, asking);
    }
    Ok(response)
}

/// Kind of a request: one that opens an MCP session, or any other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Initialize,
    Other,
}

/// Reads a message into memory within the token's quota. The library itself would read a body
/// without a timeout and parse any number of values.
async fn read(request: Request, limits: Limits) -> Result<(Request, Kind), Problem> {
    if request.method() != Method::POST {
        return Ok((request, Kind::Other));
    }
    let (parts, body) = request.into_parts();
    let ticket = parts.extensions.get::<Arc<Ticket>>().cloned();
    let bytes = gather(body, ticket.as_deref(), limits.body_bytes, limits.body_timeout).await?;
    let mut values = Values::default();
    values.read(&bytes);
    values.check().map_err(|error| Problem::invalid("", error))?;
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        return Err(Problem::invalid("", format!("the body is not valid JSON: {error}")));
    }
    let kind = kind(&bytes);
    Ok((Request::from_parts(parts, Body::from(bytes)), kind))
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    method: Option<std::borrow::Cow<'a, str>>,
}

/// Returns the kind of a message. The library may accept a message that fails to parse here, such
/// as a batch or one with a duplicate key. Such a message counts as one that opens a session.
fn kind(bytes: &Bytes) -> Kind {
    match serde_json::from_slice::<Message<'_>>(bytes) {
        Ok(Message { method }) if method.as_deref() != Some("initialize") => Kind::Other,
        _ => Kind::Initialize,
    }
}

fn session(headers: &HeaderMap) -> Option<String> {
    headers.get(HEADER)?.to_str().ok().map(str::to_owned)
}

fn asking(request: &Request) -> Option<Owner> {
    let Caller(actor) = request.extensions().get::<Caller>()?.clone();
    Some(Owner { actor, query: request.uri().query().map(str::to_owned) })
}
