//! Calling the server, where the box's kernel takes no listener from outside.
//!
//! A few connections are always ready: the server takes one when it wants to ask something, and the box calls again. Each begins with a line
//! that only the server and process 1 know, since every process of the box can find the socket. While there is no server the box calls in vain, now and
//! then.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Connections that wait for the server.
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

    /// When to look again, if `ready` connections wait now.
    pub(super) fn due(&self, ready: usize) -> Option<Instant> {
        self.not_before.filter(|_| ready < READY)
    }

    /// New connections, as many as are missing.
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
