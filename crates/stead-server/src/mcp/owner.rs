//! A session of the protocol belongs to whoever opened it.
//!
//! Its id is a random text that clients may log. Who holds one without the token it was opened with learns nothing: not even that it is there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use stead_core::Actor;

use crate::auth::Caller;
use crate::problem::{Code, OwnForm, Problem};

const HEADER: &str = "mcp-session-id";
/// The library forgets a session after minutes of silence; so many may be open at once.
const MOST: usize = 4096;

#[derive(Clone)]
pub(super) struct Owners {
    sessions: Arc<LocalSessionManager>,
    by_id: Arc<Mutex<HashMap<String, Owner>>>,
}

/// Who opened it, and what they asked for beside their token: the Stead session where an admin named one.
#[derive(Clone, PartialEq, Eq)]
struct Owner {
    actor: Actor,
    query: Option<String>,
}

impl Owners {
    pub(super) fn new(sessions: Arc<LocalSessionManager>) -> Self {
        Self { sessions, by_id: Arc::default() }
    }

    fn of(&self, id: &str) -> Option<Owner> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    fn insert(&self, id: String, owner: Owner) {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).insert(id, owner);
    }

    /// Whether there is a place for one more, once those that ended are forgotten.
    async fn room(&self) -> bool {
        let known: Vec<String> = {
            let by_id = self.by_id.lock().unwrap_or_else(PoisonError::into_inner);
            if by_id.len() < MOST {
                return true;
            }
            by_id.keys().cloned().collect()
        };
        for id in known {
            if !self.sessions.has_session(&id.as_str().into()).await.unwrap_or(true) {
                self.by_id.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            }
        }
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner).len() < MOST
    }
}

/// Middleware: lets nobody into another's session, and remembers whose a new one is. The protocol's own errors have its own form.
pub(super) async fn check(owners: State<Owners>, request: Request, next: Next) -> Response {
    let mut response = admit(owners, request, next).await;
    response.extensions_mut().insert(OwnForm);
    response
}

async fn admit(State(owners): State<Owners>, request: Request, next: Next) -> Response {
    let Some(asking) = asking(&request) else { return next.run(request).await };
    match session(request.headers()) {
        Some(id) => {
            let stranger = owners.of(&id).is_some_and(|owner| owner != asking);
            if stranger { Problem::not_found("MCP session", &id).into_response() } else { next.run(request).await }
        }
        None if !owners.room().await => Problem::new(Code::Capacity, "too many MCP sessions are open")
            .hint("end one with DELETE /mcp, or wait until an idle one ends")
            .retry_after(30)
            .into_response(),
        None => {
            let response = next.run(request).await;
            if let Some(id) = session(response.headers()) {
                owners.insert(id, asking);
            }
            response
        }
    }
}

fn session(headers: &HeaderMap) -> Option<String> {
    headers.get(HEADER)?.to_str().ok().map(str::to_owned)
}

fn asking(request: &Request) -> Option<Owner> {
    let Caller(actor) = request.extensions().get::<Caller>()?.clone();
    Some(Owner { actor, query: request.uri().query().map(str::to_owned) })
}
