//! Connects callers to ports of a session's box.

use futures::future::BoxFuture;
use serde_json::json;
use stead_core::decide::may_open_port;
use stead_core::{Actor, AuditKind, Command, Rejection, SessionId};
use stead_providers::{ListeningPort, PortError};
use stead_store::AuditEntry;

use crate::clock;
use crate::engine::Engine;
use crate::error::OpError;
use crate::open_session::OpenSession;
use crate::open_session::port_connection::{MOST_CONNECTIONS, PortConnection};
use crate::ops::boxed;

/// Connects to a port of a session's box. The first connection of each actor to each port is
/// durable before its first byte. `ended` cuts the connection, for the end of the caller's token.
#[boxed]
pub async fn open_port(
    engine: &Engine,
    actor: &Actor,
    id: SessionId,
    port: u16,
    ended: BoxFuture<'static, ()>,
) -> Result<PortConnection, OpError> {
    let session = allowed(engine, actor, id, port).await?;
    let (place, removed) = session.port_place();
    let place = place.ok_or(OpError::TooManyPortConnections { most: MOST_CONNECTIONS })?;
    let active = session.stay_active();
    let workspace = session.workspace().ok_or(OpError::Contended)?;
    let socket = workspace.ports().ok_or(PortError::Unsupported)?.connect(port).await?;
    let recorded = session.state().await.session.is_some_and(|session| session.has_opened(port, actor));
    if !recorded {
        let (session, actor) = (session.clone(), actor.clone());
        let recording = async move { session.commit(Command::OpenPort { port }, &actor).await.map(drop) };
        engine.to_its_end(recording).await?;
    }
    let stopping = engine.stopping().clone();
    let cut = Box::pin(async move {
        tokio::select! {
            () = removed.cancelled() => {}
            () = stopping.cancelled() => {}
            () = ended => {}
        }
    });
    Ok(PortConnection::new(socket, cut, place, active))
}

/// Checks that a caller may open a port, without a connection.
#[boxed]
pub async fn check_port(engine: &Engine, actor: &Actor, id: SessionId, port: u16) -> Result<(), OpError> {
    allowed(engine, actor, id, port).await.map(drop)
}

/// Lists the ports that programs in the box listen on and that the caller may open.
#[boxed]
pub async fn listening_ports(engine: &Engine, actor: &Actor, id: SessionId) -> Result<Vec<ListeningPort>, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let state = session.state().await;
    let Some(known) = state.session.as_deref() else { return Err(OpError::Contended) };
    // Says why a session without an active box has no ports.
    match may_open_port(known, 0, actor) {
        Ok(()) | Err(Rejection::PortNotAllowed { .. }) => {}
        Err(rejection) => return Err(rejection.into()),
    }
    let workspace = session.workspace().ok_or(OpError::Contended)?;
    let mut listening = workspace.ports().ok_or(PortError::Unsupported)?.listening().await?;
    listening.retain(|found| may_open_port(known, found.port, actor).is_ok());
    Ok(listening)
}

async fn allowed(engine: &Engine, actor: &Actor, id: SessionId, port: u16) -> Result<OpenSession, OpError> {
    let session = OpenSession::open(engine, id).await?;
    let state = session.state().await;
    let Some(known) = state.session.as_deref() else { return Err(OpError::Contended) };
    match may_open_port(known, port, actor) {
        Ok(()) => Ok(session),
        Err(rejection) => {
            if let Rejection::PortNotAllowed { .. } = rejection {
                let body = json!({"port": port, "code": rejection.code(), "message": rejection.to_string()});
                let entry = AuditEntry {
                    at: clock::now(),
                    kind: AuditKind::Refusal.to_string(),
                    actor: actor.to_string(),
                    token: actor.token(),
                    session: Some(id),
                    body: body.to_string(),
                };
                engine.store().record_audit(vec![entry]).await?;
            }
            Err(rejection.into())
        }
    }
}
