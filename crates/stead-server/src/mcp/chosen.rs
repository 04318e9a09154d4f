//! Determines the caller and the session of a request.
//!
//! A session token identifies its session. An admin token works for any session, so the request
//! must name one: `/mcp?session=ses_…`.

use http::Uri;
use rmcp::model::{ErrorData, Extensions};
use stead_core::content::profile;
use stead_core::{Actor, Resource, SessionId};

use super::McpSession;
use super::notifications::LogLevel;
use super::subscriptions::Subscriptions;
use super::throttle::MessageInProgress;
use crate::app::App;
use crate::auth;
use crate::extract::query::{Parameters, Query, ReadQuery};
use crate::problem::Problem;

/// The caller and the session that it addresses.
#[derive(Clone)]
pub(super) struct Caller {
    actor: Actor,
    session: SessionId,
    catalog: Option<String>,
}

impl Caller {
    /// A session token may name its own session. Any other session gives the same error as one that
    /// does not exist.
    pub(super) fn new(actor: Actor, uri: &Uri) -> Result<Self, Problem> {
        let Query(Asked { session, profile }) = Query::from_uri(uri)?;
        let session = match (&actor, session) {
            (Actor::Session { session: own }, Some(other)) if *own != other => {
                return Err(Problem::not_found(Resource::Session, &other.to_string()));
            }
            (Actor::Session { session: own }, _) => *own,
            (_, Some(named)) => named,
            (_, None) => {
                let detail = "no session is chosen: send the session's own token, or name it as /mcp?session=ses_…";
                return Err(Problem::invalid("session", detail));
            }
        };
        Ok(Self { actor, session, catalog: profile.map(str::to_owned) })
    }

    pub(super) fn session(&self) -> SessionId {
        self.session
    }
}

/// The query of `/mcp`.
struct Asked {
    session: Option<SessionId>,
    /// Profile that determines the tool names.
    profile: Option<&'static str>,
}

impl ReadQuery for Asked {
    fn read(parameters: &mut Parameters) -> Self {
        let profiles: Vec<&'static str> = profile::all().iter().map(|profile| profile.name).collect();
        Self { session: parameters.parsed("session"), profile: parameters.word("profile", &profiles) }
    }
}

/// A caller together with the server state that handles its message.
pub(super) struct Chosen {
    pub(super) app: App,
    pub(super) actor: Actor,
    pub(super) session: SessionId,
    /// Catalog that the caller chose; `None` for the catalog of the active snapshot.
    pub(super) catalog: Option<String>,
    /// Level of the log messages that the client wants.
    pub(super) log_level: LogLevel,
    /// Resources that the client subscribed to.
    pub(super) subscriptions: Subscriptions,
    /// Counts this message as in progress on a `/mcp/line` connection.
    pub(super) in_progress: Option<MessageInProgress>,
}

impl Chosen {
    /// Uses the caller of the connection if it has one, else the caller of the request.
    pub(super) fn of(handler: &McpSession, extensions: &Extensions) -> Result<Self, ErrorData> {
        let Caller { actor, session, catalog } = match &handler.caller {
            Some(caller) => caller.clone(),
            None => from_request(extensions)?,
        };
        let in_progress = handler.throttle.as_ref().map(|throttle| throttle.begin());
        let (log_level, subscriptions) = (handler.log_level.clone(), handler.subscriptions.clone());
        Ok(Self { app: handler.app.clone(), actor, session, catalog, log_level, subscriptions, in_progress })
    }
}

fn from_request(extensions: &Extensions) -> Result<Caller, ErrorData> {
    let no_token = || ErrorData::invalid_request("this request carries no valid token", None);
    let parts = extensions.get::<http::request::Parts>().ok_or_else(no_token)?;
    let auth::Caller(actor) = parts.extensions.get::<auth::Caller>().cloned().ok_or_else(no_token)?;
    Caller::new(actor, &parts.uri).map_err(|problem| ErrorData::invalid_params(problem.detail().to_owned(), None))
}
