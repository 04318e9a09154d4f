//! Shows what a session's box reached and was refused.

use stead_core::network::{NetworkUse, Phase, Reachable, Window, reachable};
use stead_core::session::Session;
use stead_core::{Resource, SessionId, Status};

use crate::effects::network;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;

/// The network of a session now.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionNetworkView {
    pub phase: Phase,
    pub reachable: Vec<Reachable>,
    pub used: std::sync::Arc<NetworkUse>,
}

/// Returns the network of a session, with the traffic until now.
pub async fn session_network(engine: &Engine, id: SessionId) -> Result<SessionNetworkView, OpError> {
    let session = OpenSession::open(engine, id).await?;
    network::tally(&session, Window::Open).await;
    let state = session.state().await;
    let unknown = || OpError::NotFound { what: Resource::Session, id: id.to_string() };
    let session: &Session = state.session.as_deref().ok_or_else(unknown)?;
    let phase = if session.status == Status::Provisioning { Phase::Setup } else { Phase::Agent };
    let in_force = network::in_force(session);
    let reachable = in_force.map(|policy| reachable(&policy.spec, phase, &policy.grants)).unwrap_or_default();
    Ok(SessionNetworkView { phase, reachable, used: session.network_use.clone() })
}
