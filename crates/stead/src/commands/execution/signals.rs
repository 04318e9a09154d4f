//! Signals that end a command.

use crate::failure::Failure;

/// Calls `then` on another thread after SIGTERM or SIGINT, which then do not end this process.
pub(crate) fn on_end(then: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let failed = |error: std::io::Error| Failure::new("cannot wait for signals").because(&error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let (mut terminate, mut interrupt) = {
        let _context = runtime.enter();
        (signal(SignalKind::terminate()).map_err(failed)?, signal(SignalKind::interrupt()).map_err(failed)?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        then();
    });
    Ok(())
}
