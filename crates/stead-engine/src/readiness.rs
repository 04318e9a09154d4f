//! Whether the store can be written, found out by writing, and not more often than somebody could make it a burden.

use std::time::{Duration, Instant};

use stead_store::{BlobError, Store, StoreError};
use tokio::sync::Mutex;

use crate::error::OpError;

/// How long an answer is good for.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// When writing last worked. Held while it is tried: many who ask at once cause one try.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<Instant>>);

impl Readiness {
    pub(crate) async fn check(&self, store: &Store) -> Result<(), OpError> {
        let mut worked = self.0.lock().await;
        if worked.is_some_and(|at| at.elapsed() < GOOD_FOR) {
            return Ok(());
        }
        store.ping().await?;
        let full = |error: BlobError| StoreError::Unavailable { doing: "write to the home", source: error.into() };
        store.blobs().probe().await.map_err(full)?;
        *worked = Some(Instant::now());
        Ok(())
    }
}
