//! Which session a request is about, and who asks.
//!
//! A session token is for its session and names it by itself. An admin token works on any, so it must say which: `/mcp?session=ses_…`.

use rmcp::model::{ErrorData, Extensions};
use stead_core::{Actor, SessionId};

use super::Door;
use super::throttle::Answering;
use crate::app::App;
use crate::auth;

/// Who asks about which session.
#[derive(Clone)]
pub(super) struct Caller {
    actor: Actor,
    session: SessionId,
    catalog: Option<String>,
}

impl Caller {
    pub(super) fn new(actor: Actor, query: Option<&str>) -> Result<Self, ErrorData> {
        let session = match &actor {
            Actor::Session { session } => *session,
            _ => named(query)?,
        };
        Ok(Self { actor, session, catalog: profile(query)? })
    }
}

/// A caller, and the server to answer with.
pub(super) struct Chosen {
    pub(super) app: App,
    pub(super) actor: Actor,
    pub(super) session: SessionId,
    /// The catalog the caller wants to see; without one, the active snapshot's.
    pub(super) catalog: Option<String>,
    /// Counts this message as under way on a connection that is one caller's.
    pub(super) answering: Option<Answering>,
}

impl Chosen {
    /// From the connection if it is one caller's, else from the request.
    pub(super) fn of(door: &Door, extensions: &Extensions) -> Result<Self, ErrorData> {
        let Caller { actor, session, catalog } = match &door.caller {
            Some(caller) => caller.clone(),
            None => from_request(extensions)?,
        };
        let answering = door.throttle.as_ref().map(|throttle| throttle.begin());
        Ok(Self { app: door.app.clone(), actor, session, catalog, answering })
    }
}

fn from_request(extensions: &Extensions) -> Result<Caller, ErrorData> {
    let parts = extensions.get::<http::request::Parts>();
    let caller = parts.and_then(|parts| parts.extensions.get::<auth::Caller>()).cloned();
    let no_token = || ErrorData::invalid_request("this request carries no valid token", None);
    let auth::Caller(actor) = caller.ok_or_else(no_token)?;
    Caller::new(actor, parts.and_then(|parts| parts.uri.query()))
}

/// `?profile=`: which names the tools have.
fn profile(query: Option<&str>) -> Result<Option<String>, ErrorData> {
    let mut values = query.unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("profile="));
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) if stead_core::content::profile::find(value).is_some() => Ok(Some(value.to_owned())),
        _ => {
            let known: Vec<&str> = stead_core::content::profile::all().iter().map(|profile| profile.name).collect();
            Err(ErrorData::invalid_params(format!("'profile' is one of {}", known.join(", ")), None))
        }
    }
}

fn named(query: Option<&str>) -> Result<SessionId, ErrorData> {
    let unsaid = || {
        ErrorData::invalid_request(
            "no session is chosen: send the session's own token, or name it as /mcp?session=ses_…",
            None,
        )
    };
    let mut values = query.unwrap_or_default().split('&').filter_map(|pair| pair.strip_prefix("session="));
    let (Some(value), None) = (values.next(), values.next()) else { return Err(unsaid()) };
    value.parse().map_err(|_| ErrorData::invalid_params("'session' is not the id of a session", None))
}
