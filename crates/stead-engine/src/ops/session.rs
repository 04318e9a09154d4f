//! Look at sessions.

use std::time::Duration;

use stead_core::{SessionId, State, Status};
use stead_store::SessionQuery;

use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

/// A part of the list of sessions, newest first.
#[derive(Debug, Clone, Default)]
pub struct SessionPage {
    pub after: Option<SessionId>,
    pub limit: u32,
    pub status: Option<Status>,
    pub agent_type: Option<String>,
    pub project: Option<String>,
}

pub async fn session(engine: &Engine, id: SessionId) -> Result<State, OpError> {
    Ok(OpenSession::open(engine, id).await?.state().await)
}

pub async fn sessions(engine: &Engine, page: SessionPage) -> Result<Vec<State>, OpError> {
    let query = SessionQuery {
        after: page.after,
        limit: page.limit,
        status: page.status.map(|status| status.to_string()),
        agent_type: page.agent_type,
        project: page.project,
    };
    let mut states = Vec::new();
    for row in engine.store().sessions(query).await? {
        states.push(session(engine, row.id).await?);
    }
    Ok(states)
}

/// How many sessions there are in each status, also in those that none has.
pub async fn session_counts(engine: &Engine) -> Result<Vec<(Status, u64)>, OpError> {
    let counted = engine.store().session_counts().await?;
    let count =
        |status: &Status| counted.iter().find(|(name, _)| name == status.as_str()).map_or(0, |(_, count)| *count);
    Ok(Status::ALL.iter().map(|status| (*status, count(status))).collect())
}

/// The session once it is neither provisioning nor closing, or as it is when the time is up.
pub async fn wait_settled(engine: &Engine, id: SessionId, patience: Duration) -> Result<State, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let mut watch = session.watch();
    let settled = async {
        loop {
            let state = session.state().await;
            let status = state.session.as_ref().map(|session| session.status);
            let underway = matches!(status, Some(Status::Provisioning | Status::Closing));
            if !underway || watch.changed().await.is_err() {
                return state;
            }
        }
    };
    match tokio::time::timeout(patience, settled).await {
        Ok(state) => Ok(state),
        Err(_) => Ok(session.state().await),
    }
}
