//! Connects to the server, if the box's kernel cannot receive a listener from outside.
//!
//! A few connections are always open. The server uses one for a request, and the guest opens
//! another. Each starts with a secret line that only the server and process 1 know, because every
//! process of the box can find the socket. While no server runs, the guest retries periodically.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Number of idle connections to keep open.
const READY: usize = 2;
const AGAIN: Duration = Duration::from_millis(250);

pub(crate) struct Dialler {
    path: String,
    secret: String,
    not_before: Option<Instant>,
}

impl Dialler {
    pub(crate) fn new(path: String, secret: String) -> Self {
        Self { path, secret, not_before: None }
    }

    /// Returns the time of the next attempt, if `ready` connections are open now.
    pub(super) fn due(&self, ready: usize) -> Option<Instant> {
        self.not_before.filter(|_| ready < READY)
    }

    /// Opens the missing connections.
    pub(super) fn dial(&mut self, ready: usize, now: Instant) -> Vec<UnixStream> {
        if ready >= READY || self.not_before.is_some_and(|then| now < then) {
            return Vec::new();
        }
        let made: io::Result<Vec<_>> = (ready..READY).map(|_| self.call()).collect();
        self.not_before = if made.is_ok() { None } else { Some(now + AGAIN) };
        made.unwrap_or_default()
    }

    fn call(&self) -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(&self.path)?;
        stream.write_all(self.secret.as_bytes())?;
        stream.write_all(b"\n")?;
        Ok(stream)
    }
}
