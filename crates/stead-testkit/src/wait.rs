//! Waiting for what is bound to come, never for a time.

use std::time::{Duration, Instant};

/// Far more than anything takes, also where many tests run beside it.
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Looks until something is there.
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
