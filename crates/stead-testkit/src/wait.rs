//! Waits for conditions, never for a fixed time.

use std::time::{Duration, Instant};

/// Timeout, far longer than any condition needs, even if many tests run in parallel.
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Polls until `look` returns a value. Panics after the timeout.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited for {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(LOOK_AGAIN);
    }
}
