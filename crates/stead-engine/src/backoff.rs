//! Exponential backoff for retries.

use std::time::Duration;

use crate::engine::Engine;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

pub(crate) struct Backoff(Duration);

/// The server is shutting down. The work continues after the next start.
pub(crate) struct Stopping;

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(FIRST)
    }

    pub(crate) async fn wait(&mut self, engine: &Engine) -> Result<(), Stopping> {
        tokio::select! {
            () = tokio::time::sleep(self.0) => {}
            () = engine.stopping().cancelled() => return Err(Stopping),
        }
        self.0 = (self.0 * 2).min(LONGEST);
        Ok(())
    }
}
