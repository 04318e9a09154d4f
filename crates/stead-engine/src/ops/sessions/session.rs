//! Reads sessions.

use std::time::Duration;

use stead_core::{SessionId, State, Status};
use stead_store::SessionQuery;

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;

/// A page of the list of sessions, newest first.
#[derive(Debug, Clone, Default)]
pub struct SessionPage {
    pub after: Option<SessionId>,
    pub limit: u32,
    pub status: Option<Status>,
    pub agent_type: Option<String>,
    pub project: Option<String>,
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
        after: page.after,
        limit: page.limit.saturating_add(1),
        status: page.status.map(|status| status.to_string()),
        agent_type: page.agent_type,
        project: page.project,
    };
    let mut rows = engine.store().sessions(query).await?;
    let more = rows.len() > wanted;
    rows.truncate(wanted);
    let next = rows.last().filter(|_| more).map(|row| row.id);
    let mut states = Vec::new();
    for row in rows {
        match session(engine, row.id).await {
            Ok(state) => states.push(state),
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

/// Waits until the session is neither provisioning nor closing. Returns its current state after the
/// timeout.
#[boxed]
pub async fn wait_settled(engine: &Engine, id: SessionId, patience: Duration) -> Result<State, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let mut watch = session.watch();
    let settled = async {
        loop {
            let state = session.state().await;
            let status = state.session.as_ref().map(|session| session.status);
            let in_progress = matches!(status, Some(Status::Provisioning | Status::Closing));
            if !in_progress || watch.changed().await.is_err() {
                return state;
            }
        }
    };
    match tokio::time::timeout(patience, settled).await {
        Ok(state) => Ok(state),
        Err(_) => Ok(session.state().await),
    }
}
