//! Tickets and visitors of doors, in memory. Only hashes of their secrets are kept.
//!
//! A ticket is in a link and can be used once, within a minute. Its use makes a visitor, whose
//! secret is in a cookie. Both are valid for one port of one session. They end with the caller's
//! token, and with the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stead_core::session::door_host::DoorHost;

use super::cookies::LIFETIME_SECONDS;
use crate::auth::Identity;

const TICKET: Duration = Duration::from_secs(60);
const VISITOR: Duration = Duration::from_secs(LIFETIME_SECONDS);
/// Maximum number of tickets, and of visitors, of one caller. The oldest is dropped for a new one.
const MOST_PER_CALLER: usize = 256;
/// Maximum number of tickets, and of visitors, of all callers.
const MOST: usize = 16_384;

/// The right to use a door.
#[derive(Clone)]
pub(crate) struct Grant {
    pub(crate) door: DoorHost,
    pub(crate) identity: Identity,
}

#[derive(Clone, Default)]
pub(crate) struct Tickets(Arc<Inner>);

#[derive(Default)]
struct Inner {
    tickets: Mutex<HashMap<[u8; 32], Kept>>,
    visitors: Mutex<HashMap<[u8; 32], Kept>>,
}

struct Kept {
    grant: Grant,
    until: Instant,
}

impl Tickets {
    /// Returns the secret of a new ticket; `None` if there are too many or the system has no random
    /// bytes.
    pub(crate) fn issue(&self, grant: Grant) -> Option<String> {
        keep(lock(&self.0.tickets), grant, TICKET)
    }

    /// Uses a ticket up. Returns the secret of the new visitor.
    pub(super) fn enter(&self, ticket: &str, door: &DoorHost) -> Option<String> {
        let kept = lock(&self.0.tickets).remove(&hash(ticket))?;
        if kept.until <= Instant::now() || kept.grant.door != *door {
            return None;
        }
        keep(lock(&self.0.visitors), kept.grant, VISITOR)
    }

    /// Returns the grant of a visitor of this door.
    pub(super) fn visitor(&self, secret: &str, door: &DoorHost) -> Option<Grant> {
        let visitors = lock(&self.0.visitors);
        let kept = visitors.get(&hash(secret))?;
        (kept.until > Instant::now() && kept.grant.door == *door).then(|| kept.grant.clone())
    }
}

fn lock(kept: &Mutex<HashMap<[u8; 32], Kept>>) -> MutexGuard<'_, HashMap<[u8; 32], Kept>> {
    // Each use inserts or removes whole entries, so a panic elsewhere leaves none half made.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lookup by hash takes the same time whatever part of the secret is right.
fn hash(secret: &str) -> [u8; 32] {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

fn keep(mut all: MutexGuard<'_, HashMap<[u8; 32], Kept>>, grant: Grant, time: Duration) -> Option<String> {
    let now = Instant::now();
    all.retain(|_, kept| kept.until > now);
    let caller = grant.identity.actor.to_string();
    let own = all.iter().filter(|(_, kept)| kept.grant.identity.actor.to_string() == caller);
    let own: Vec<_> = own.map(|(hash, kept)| (kept.until, *hash)).collect();
    if own.len() >= MOST_PER_CALLER
        && let Some((_, oldest)) = own.iter().min()
    {
        all.remove(oldest);
    }
    if all.len() >= MOST {
        return None;
    }
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    let secret = blake3::Hash::from_bytes(bytes).to_hex().to_string();
    all.insert(hash(&secret), Kept { grant, until: now + time });
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Source;
    use crate::auth::lifetime::Lifetime;
    use stead_core::{Actor, SessionId};

    fn grant(port: u16) -> Grant {
        let lifetime = Lifetime::default();
        let identity = Identity { actor: Actor::System, principal: None, token: None, lifetime, source: Source::Page };
        Grant { door: DoorHost { session: SessionId::from_bits(1), port }, identity }
    }

    #[test]
    fn a_ticket_is_used_once_and_opens_one_door() {
        let tickets = Tickets::default();
        let (door, other) = (grant(1).door, grant(2).door);
        let ticket = tickets.issue(grant(1)).unwrap();
        let visitor = tickets.enter(&ticket, &door).unwrap();
        assert!(tickets.enter(&ticket, &door).is_none(), "used");
        assert!(tickets.visitor(&visitor, &door).is_some());
        assert!(tickets.visitor(&visitor, &other).is_none(), "another port");
        assert!(tickets.visitor(&ticket, &door).is_none(), "a ticket is not a cookie");
        assert!(tickets.visitor("", &door).is_none());
        // A ticket at the wrong door is used up as well.
        let ticket = tickets.issue(grant(1)).unwrap();
        assert!(tickets.enter(&ticket, &other).is_none());
        assert!(tickets.enter(&ticket, &door).is_none());
    }

    #[test]
    fn an_expired_ticket_and_cookie_are_worth_nothing() {
        let tickets = Tickets::default();
        let door = grant(1).door;
        let (ticket, later) = (tickets.issue(grant(1)).unwrap(), tickets.issue(grant(1)).unwrap());
        let visitor = tickets.enter(&later, &door).unwrap();
        for kept in [&tickets.0.tickets, &tickets.0.visitors] {
            lock(kept).values_mut().for_each(|kept| kept.until = Instant::now());
        }
        assert!(tickets.enter(&ticket, &door).is_none());
        assert!(tickets.visitor(&visitor, &door).is_none());
    }

    #[test]
    fn one_caller_keeps_a_bounded_number() {
        let tickets = Tickets::default();
        let first = tickets.issue(grant(1)).unwrap();
        for _ in 0..MOST_PER_CALLER {
            tickets.issue(grant(1)).unwrap();
        }
        assert_eq!(lock(&tickets.0.tickets).len(), MOST_PER_CALLER);
        assert!(tickets.enter(&first, &grant(1).door).is_none(), "the oldest is dropped");
    }
}
