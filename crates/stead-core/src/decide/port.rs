//! Rules for connections to ports of a box.

use super::in_workspace;
use crate::command::Step;
use crate::event::Event;
use crate::identity::Actor;
use crate::rejection::Rejection;
use crate::session::Session;

/// Checks that the actor may connect to a port of the box. The agent type can list the ports.
/// Without a list, users may connect to every port, and the session's own token to none.
pub fn may_open_port(session: &Session, port: u16, actor: &Actor) -> Result<(), Rejection> {
    let spec = in_workspace(session)?;
    let allowed = match &spec.ports {
        Some(ports) => ports.contains(&port),
        None => !matches!(actor, Actor::Session { .. }),
    };
    if allowed { Ok(()) } else { Err(Rejection::PortNotAllowed { port }) }
}

/// Records the first connection of each actor to each port.
pub(super) fn open_port(session: &Session, port: u16, actor: &Actor) -> Result<Step, Rejection> {
    may_open_port(session, port, actor)?;
    let opened = Event::PortOpened { port, actor: actor.clone() };
    let events = if session.has_opened(port, actor) { Vec::new() } else { vec![opened] };
    Ok(Step { events, effect: None })
}
