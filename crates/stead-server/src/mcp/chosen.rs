//! Which session a request is about, and who asks.
//!
//! A session token is for its session and names it by itself. An admin token works on any, so it must say which: `/mcp?session=ses_…`.

use rmcp::model::{ErrorData, Extensions};
use stead_core::{Actor, SessionId};

use crate::app::App;
use crate::auth::Caller;

pub(super) struct Chosen {
    pub(super) app: App,
    pub(super) actor: Actor,
    pub(super) session: SessionId,
}

impl Chosen {
    pub(super) fn of(app: &App, extensions: &Extensions) -> Result<Self, ErrorData> {
        let parts = extensions.get::<http::request::Parts>();
        let Caller(actor) = parts
            .and_then(|parts| parts.extensions.get::<Caller>())
            .cloned()
            .ok_or_else(|| ErrorData::invalid_request("this request carries no valid token", None))?;
        let session = match &actor {
            Actor::Session { session } => *session,
            _ => named(parts.and_then(|parts| parts.uri.query()))?,
        };
        Ok(Self { app: app.clone(), actor, session })
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
