//! Signs the ledger while the engine runs. New records are signed within about a second.

use std::time::Duration;

use crate::clock;
use crate::engine::Engine;

const EVERY: Duration = Duration::from_secs(1);

pub(crate) async fn run(engine: Engine) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = engine.stopping().cancelled() => return,
        }
        seal(&engine).await;
    }
}

pub(crate) async fn seal(engine: &Engine) {
    let Some(sealer) = &engine.settings().sealer else { return };
    if let Err(error) = engine.store().seal(sealer, clock::now()).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "cannot sign the ledger yet");
    }
}
