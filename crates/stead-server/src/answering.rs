//! Idempotency keys whose first request is still being answered.
//!
//! What a key stands for once it was answered is durable and the engine's; that it is being answered right now is this process's alone, so a crash
//! forgets it, as it should.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use stead_core::Actor;

use crate::problem::{Code, Problem};

#[derive(Clone, Default)]
pub(crate) struct Answering(Arc<Mutex<HashSet<(String, String)>>>);

/// Held while a request with a key is answered.
pub(crate) struct Turn {
    answering: Answering,
    entry: (String, String),
}

impl Answering {
    /// Takes the key, or refuses because a request with it is under way. Without a key there is nothing to take.
    pub(crate) fn begin(&self, actor: &Actor, key: Option<&str>) -> Result<Option<Turn>, Problem> {
        let Some(key) = key else { return Ok(None) };
        let entry = (actor.to_string(), key.to_owned());
        if !self.lock().insert(entry.clone()) {
            let detail = "a request with this Idempotency-Key is still being answered";
            return Err(Problem::new(Code::IdempotencyInProgress, detail).retry_after(1));
        }
        Ok(Some(Turn { answering: self.clone(), entry }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<(String, String)>> {
        // One insert or remove at a time: a panic elsewhere leaves the set whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.answering.lock().remove(&self.entry);
    }
}
