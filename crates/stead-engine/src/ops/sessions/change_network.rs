//! Changes the network policy of a running session.

use std::time::Duration;

use stead_core::decide::NewGrant;
use stead_core::network::{NetworkRule, Phase};
use stead_core::{Actor, Command, SessionId, State};

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::ops::boxed;

/// Takes hosts away until the session ends.
#[boxed]
pub async fn narrow_network(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    deny: Vec<NetworkRule>,
) -> Result<State, OpError> {
    change(engine, actor, id, Command::NarrowNetwork { deny }).await
}

/// Grants hosts in one phase for a time.
#[boxed]
pub async fn grant_network(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    (allow, phase): (Vec<NetworkRule>, Phase),
    time: Duration,
) -> Result<State, OpError> {
    let now = clock::now();
    let grant = NewGrant { allow, phase, until: now.plus_seconds(time.as_secs()) };
    change(engine, actor, id, Command::GrantNetwork { grant, now }).await
}

async fn change(engine: &Engine, actor: &Actor, id: SessionId, command: Command) -> Result<State, OpError> {
    let (work, actor) = (engine.clone(), actor.clone());
    let changing = async move {
        let session = OpenSession::open(&work, id).await?;
        session.commit(command, &actor).await?;
        Ok(session.state().await)
    };
    engine.to_its_end(changing).await
}
