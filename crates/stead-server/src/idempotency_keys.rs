//! Idempotency keys whose first request is still in progress.
//!
//! The engine stores the results of completed requests durably. Requests in progress are only known
//! to this process, so that a crash forgets them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use stead_core::Actor;

use crate::problem::{Code, Problem};

#[derive(Clone, Default)]
pub(crate) struct KeysInProgress(Arc<Mutex<HashSet<(String, String)>>>);

/// Guard that reserves a key while its request is in progress.
pub(crate) struct ReservedKey {
    keys: KeysInProgress,
    entry: (String, String),
}

impl KeysInProgress {
    /// Reserves the key, or returns an error if a request with it is in progress. Does nothing
    /// without a key.
    pub(crate) fn begin(&self, actor: &Actor, key: Option<&str>) -> Result<Option<ReservedKey>, Problem> {
        let Some(key) = key else { return Ok(None) };
        let entry = (actor.to_string(), key.to_owned());
        if !self.lock().insert(entry.clone()) {
            let detail = "a request with this Idempotency-Key is still being answered";
            return Err(Problem::new(Code::IdempotencyInProgress, detail).retry_after(1));
        }
        Ok(Some(ReservedKey { keys: self.clone(), entry }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<(String, String)>> {
        // Each change is one insert or remove, so a panic elsewhere leaves the set consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ReservedKey {
    fn drop(&mut self) {
        self.keys.lock().remove(&self.entry);
    }
}
