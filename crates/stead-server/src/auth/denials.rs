//! A bound on the audit records of refused requests, so that a token cannot fill the disk with
//! them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of records of one caller in a [`WINDOW`]. Later refusals are only counted by a
/// metric.
const MOST: u32 = 60;
const WINDOW: Duration = Duration::from_secs(60);
/// Callers in the table. It is emptied when it is full, which only allows a few more records.
const CALLERS: usize = 10_000;

#[derive(Clone, Default)]
pub(crate) struct Denials(Arc<Mutex<HashMap<String, (Instant, u32)>>>);

impl Denials {
    /// Counts a refusal. Returns true if it should be recorded.
    pub(crate) fn count(&self, actor: &str) -> bool {
        metrics::counter!("stead_access_denied_total").increment(1);
        // Every change is complete under the lock, so a panic elsewhere cannot leave it half done.
        let mut callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.len() >= CALLERS {
            callers.clear();
        }
        let (since, count) = callers.entry(actor.to_owned()).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= WINDOW {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        *count <= MOST
    }
}
