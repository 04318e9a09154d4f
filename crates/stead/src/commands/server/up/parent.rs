//! Stops this process with its parent.
//!
//! The parent holds the other end of standard input. The kernel closes it even if the parent is
//! killed, so a server cannot outlive a client library that started it.

use std::io::Read as _;

use rustix::process::{Signal, getpid, kill_process};

/// Sends SIGTERM to this process when standard input ends.
pub(super) fn stop_at_eof() {
    std::thread::spawn(|| {
        let mut input = std::io::stdin().lock();
        let mut ignored = [0; 512];
        while input.read(&mut ignored).is_ok_and(|bytes| bytes > 0) {}
        if let Err(error) = kill_process(getpid(), Signal::TERM) {
            tracing::error!(%error, "cannot stop the server at the end of standard input");
        }
    });
}
