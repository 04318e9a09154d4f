//! Changes the end and the metadata of a session.

use std::time::Duration;

use serde_json::{Map, Value};
use stead_core::decide::SessionUpdate;
use stead_core::{Actor, Command, SessionId, State, Timestamp};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;

/// The new end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewEnd {
    At(Timestamp),
    /// Counts from now.
    After(Duration),
}

#[boxed]
pub async fn update_session(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    end: Option<NewEnd>,
    metadata: Option<Map<String, Value>>,
) -> Result<State, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    let updating = async move {
        let session = OpenSession::open(&work, id).await?;
        let now = clock::now();
        let expires_at = end.map(|end| match end {
            NewEnd::At(at) => at,
            NewEnd::After(time) => now.plus_seconds(time.as_secs()),
        });
        let update = SessionUpdate { expires_at, metadata };
        session.commit(Command::Update { update, now }, &actor).await?;
        Ok(session.state().await)
    };
    engine.to_its_end(updating).await
}
