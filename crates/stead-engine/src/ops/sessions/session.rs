//! Reads sessions.

use std::time::Duration;

use stead_core::{Name, SessionId, State, Status};
use stead_store::{SearchTerm, SessionQuery};

use crate::engine::Engine;
use crate::error::OpError;
use crate::journal::search_terms::has_metadata;
use crate::open_session::OpenSession;
use crate::ops::boxed;
use crate::ops::sessions::pause_session::in_progress;

/// A page of the list of sessions, newest first.
#[derive(Debug, Clone, Default)]
pub struct SessionPage {
    pub after: Option<SessionId>,
    pub limit: u32,
    pub status: Option<Status>,
    pub agent_type: Option<String>,
    pub project: Option<Name>,
    /// The creator, as text.
    pub owner: Option<String>,
    /// Keys and values, all of which must match.
    pub metadata: Vec<(String, String)>,
    /// Words, each of which must be the start of a word of the session.
    pub words: Vec<String>,
}

impl SessionPage {
    fn terms(&self) -> Vec<SearchTerm> {
        let metadata = self.metadata.iter().cloned().map(|(key, value)| SearchTerm::Metadata { key, value });
        let words = self.words.iter().cloned().map(SearchTerm::WordStart);
        self.owner.iter().cloned().map(SearchTerm::Owner).chain(metadata).chain(words).collect()
    }

    /// Compares the state with the filters, because the table of terms only proposes sessions.
    fn admits(&self, state: &State) -> bool {
        state.session.as_deref().is_some_and(|session| {
            let owner = session.owner.as_ref().map(ToString::to_string);
            let metadata = &session.spec.metadata;
            self.owner.as_ref().is_none_or(|wanted| owner.as_ref() == Some(wanted))
                && self.metadata.iter().all(|(key, value)| has_metadata(metadata, key, value))
        })
    }
}

#[boxed]
pub async fn session(engine: &Engine, id: SessionId) -> Result<State, OpError> {
    Ok(OpenSession::open(engine, id).await?.state().await)
}

/// A page of sessions, and the position of the next page if there is one.
#[derive(Debug, Clone)]
pub struct SessionList {
    pub states: Vec<State>,
    pub next: Option<SessionId>,
}

#[boxed]
pub async fn sessions(engine: &Engine, page: SessionPage) -> Result<SessionList, OpError> {
    let wanted = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let query = SessionQuery {
        terms: page.terms(),
        after: page.after,
        limit: page.limit.saturating_add(1),
        status: page.status.map(|status| status.to_string()),
        agent_type: page.agent_type.clone(),
        project: page.project.as_ref().map(ToString::to_string),
    };
    let mut rows = engine.store().sessions(query).await?;
    let more = rows.len() > wanted;
    rows.truncate(wanted);
    let next = rows.last().filter(|_| more).map(|row| row.id);
    let mut states = Vec::new();
    for row in rows {
        match session(engine, row.id).await {
            Ok(state) if page.admits(&state) => states.push(state),
            Ok(_) => {}
            // A session that cannot be read must not hide the others. A request by its id returns
            // the error.
            Err(error @ OpError::Corrupt { .. }) => {
                tracing::error!(session = %row.id, error = &error as &dyn std::error::Error, "a session cannot be listed");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(SessionList { states, next })
}

/// Returns the number of sessions in each status, including statuses without sessions.
#[boxed]
pub async fn session_counts(engine: &Engine) -> Result<Vec<(Status, u64)>, OpError> {
    let counted = engine.store().session_counts().await?;
    let count =
        |status: &Status| counted.iter().find(|(name, _)| name == status.as_str()).map_or(0, |(_, count)| *count);
    Ok(Status::ALL.iter().map(|status| (*status, count(status))).collect())
}

/// Waits until the session is neither provisioning nor closing, and neither pausing nor resuming.
/// Returns its current state after the timeout.
#[boxed]
pub async fn wait_settled(engine: &Engine, id: SessionId, patience: Duration) -> Result<State, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let mut watch = session.watch();
    let settled = async {
        loop {
            let state = session.state().await;
            let changing = state.session.as_deref().is_some_and(|session| {
                matches!(session.status, Status::Provisioning | Status::Closing) || in_progress(session)
            });
            if !changing || watch.changed().await.is_err() {
                return state;
            }
        }
    };
    match tokio::time::timeout(patience, settled).await {
        Ok(state) => Ok(state),
        Err(_) => Ok(session.state().await),
    }
}
