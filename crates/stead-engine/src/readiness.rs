//! The readiness check: tests that the store accepts writes, at a limited rate.

use std::time::{Duration, Instant};

use stead_store::{BlobError, Store, StoreError};
use tokio::sync::Mutex;

use crate::error::OpError;

/// Validity of a positive result.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// Time of the last successful check. The lock is held during a check, so that concurrent requests
/// cause only one.
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
