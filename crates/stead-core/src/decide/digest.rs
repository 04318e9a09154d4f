//! Rules for setting and clearing digests.

use super::in_workspace;
use crate::Name;
use crate::command::Step;
use crate::digest::{DigestOrigin, DigestScope, MAX_KEYS};
use crate::event::Event;
use crate::identity::Actor;
use crate::rejection::Rejection;
use crate::session::warning::WarningCode;
use crate::session::{Session, Status};

/// A digest to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDigest {
    pub section_key: Name,
    pub summary: String,
    pub body: String,
    pub origin: DigestOrigin,
    pub tree: Option<String>,
}

/// Checks that an actor may set a digest of this scope. A global digest becomes part of the prompts
/// of other sessions, so an agent must not write one.
pub fn may_set_digest(session: &Session, scope: DigestScope, actor: &Actor) -> Result<(), Rejection> {
    in_workspace(session)?;
    match (scope, actor) {
        (DigestScope::Global, Actor::Session { .. }) => Err(Rejection::GlobalDigest),
        _ => Ok(()),
    }
}

pub(super) fn set(session: &Session, digest: NewDigest, actor: &Actor) -> Result<Step, Rejection> {
    may_set_digest(session, DigestScope::Session, actor)?;
    if !session.digests.contains_key(&digest.section_key) && session.digests.len() >= MAX_KEYS {
        return Err(Rejection::TooManyDigests { limit: MAX_KEYS });
    }
    let NewDigest { section_key, summary, body, origin, tree } = digest;
    let set = Event::DigestSet { section_key, summary, body, origin, tree, actor: actor.clone() };
    Ok(Step { events: vec![set], effect: None })
}

/// Removes the session's own digest, so that the global one applies. No-op if there is none.
pub(super) fn clear(session: &Session, section_key: Name, actor: &Actor) -> Result<Step, Rejection> {
    may_set_digest(session, DigestScope::Session, actor)?;
    let there = session.digests.contains_key(&section_key);
    let cleared = Event::DigestCleared { section_key, actor: actor.clone() };
    Ok(Step { events: there.then_some(cleared).into_iter().collect(), effect: None })
}

/// Warns that a requested digest does not exist, once per key and for at most [`MAX_KEYS`] keys.
pub(super) fn miss(session: &Session, section_key: &Name) -> Step {
    let message = format!("there is no digest '{section_key}'; generate one, or set one");
    let raised = session.warnings.iter().filter(|warning| warning.is(WarningCode::WorkspaceDigestMissing));
    let known = raised.clone().any(|warning| warning.message == message);
    let quiet = known || raised.count() >= MAX_KEYS || session.status != Status::Active;
    let events = if quiet { Vec::new() } else { vec![WarningCode::WorkspaceDigestMissing.raised(message)] };
    Step { events, effect: None }
}
