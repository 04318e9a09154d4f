//! Idempotency keys of requests that create something in a session, or several sessions.
//!
//! Each created item is claimed under the key and its part name, in the same commit as the intent.
//! A repeated request after a crash therefore returns the existing items and creates the missing
//! ones.

use stead_core::{Actor, SessionId};
use stead_store::{Hash, IdempotencyClaim, IdempotencyKey};

use crate::engine::Engine;
use crate::error::OpError;
use crate::ops::Idempotency;

pub(crate) struct Claims {
    scope: String,
    given: Option<Idempotency>,
}

impl Claims {
    pub(crate) fn new(what: &str, session: SessionId, actor: &Actor, given: Option<Idempotency>) -> Self {
        Self { scope: format!("{what}/{session}/{actor}"), given }
    }

    /// Returns the item that this part of the same request created before. A different request with
    /// the same key is refused.
    pub(crate) async fn made_before(&self, engine: &Engine, part: &str) -> Result<Option<String>, OpError> {
        let Some(given) = &self.given else { return Ok(None) };
        match engine.store().idempotent(&self.key(given, part)).await? {
            Some(row) if row.body_hash == Hash::from_bytes(given.body_hash) => Ok(Some(row.target)),
            Some(_) => Err(OpError::IdempotencyMismatch { key: given.key.clone() }),
            None => Ok(None),
        }
    }

    /// The claim to commit together with the intent to create `target`.
    pub(crate) fn on(&self, part: &str, target: impl ToString) -> Option<IdempotencyClaim> {
        let given = self.given.as_ref()?;
        let (key, target) = (self.key(given, part), target.to_string());
        Some(IdempotencyClaim { key, body_hash: Hash::from_bytes(given.body_hash), target })
    }

    fn key(&self, given: &Idempotency, part: &str) -> IdempotencyKey {
        // A key contains no space, so different pairs of key and part never give the same text.
        IdempotencyKey { scope: self.scope.clone(), key: format!("{} {part}", given.key) }
    }
}
