//! A worker process: pre-started ([`crate::seed`]), used once, killed if necessary.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::Serialize;

use crate::protocol::Say;

/// Maximum bytes of one message: the longest `write_text` argument with every character escaped.
const MOST_LINE: usize = 32 << 20;

pub(crate) struct Worker {
    pid: Pid,
    exit: Option<Exit>,
    socket: UnixStream,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Exit {
    code: Option<i32>,
    signal: Option<i32>,
}

/// Why a worker sent no further message.
pub(crate) enum Silence {
    TimedOut,
    /// The process exited with this exit code or signal.
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// The worker violated the protocol.
    Nonsense,
}

impl Worker {
    /// Takes over a process that waits for its order at the other end of the socket. It is a child
    /// of this process, even if the seed forked it.
    pub(crate) fn new(pid: Pid, socket: UnixStream) -> Self {
        Self { pid, exit: None, socket, buffer: Vec::new() }
    }

    /// Returns whether the process is alive and unused.
    pub(crate) fn alive(&mut self) -> bool {
        self.wait(WaitOptions::NOHANG);
        self.exit.is_none()
    }

    /// Waits for the exit status. Until then the kernel does not reuse the pid.
    fn wait(&mut self, options: WaitOptions) {
        while self.exit.is_none() {
            self.exit = match waitpid(Some(self.pid), options) {
                Ok(Some((_, status))) => Some(Exit { code: status.exit_status(), signal: status.terminating_signal() }),
                Ok(None) => return,
                Err(rustix::io::Errno::INTR) => None,
                // The process is no longer a child of this one.
                Err(_) => Some(Exit { code: None, signal: None }),
            };
        }
    }

    pub(crate) fn send(&mut self, message: &impl Serialize, deadline: Instant) -> Result<(), Silence> {
        let mut line = serde_json::to_vec(message).map_err(|_| Silence::Nonsense)?;
        line.push(b'\n');
        let left = remaining(deadline)?;
        let sent = self.socket.set_write_timeout(Some(left)).and_then(|()| self.socket.write_all(&line));
        sent.map_err(|error| self.silence(&error))
    }

    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<Say, Silence> {
        let mut seen = 0;
        loop {
            if let Some(end) = self.buffer[seen..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=seen + end).collect();
                return serde_json::from_slice(&line).map_err(|_| Silence::Nonsense);
            }
            seen = self.buffer.len();
            if seen > MOST_LINE {
                return Err(Silence::Nonsense);
            }
            let left = remaining(deadline)?;
            let mut piece = [0; 16 * 1024];
            let read = self.socket.set_read_timeout(Some(left)).and_then(|()| self.socket.read(&mut piece));
            match read {
                Ok(0) => return Err(self.exited()),
                Ok(count) => self.buffer.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.silence(&error)),
            }
        }
    }

    fn silence(&mut self, error: &std::io::Error) -> Silence {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        if matches!(error.kind(), TimedOut | WouldBlock) { Silence::TimedOut } else { self.exited() }
    }

    /// The worker closed its socket; waits for its exit status.
    fn exited(&mut self) -> Silence {
        self.wait(WaitOptions::empty());
        let Exit { code, signal } = self.exit.unwrap_or(Exit { code: None, signal: None });
        Silence::Exited { code, signal }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.alive() {
            // An error means that the process has exited. It has no children, because its filter
            // forbids forks.
            let _ = kill_process(self.pid, Signal::KILL);
            self.wait(WaitOptions::empty());
        }
    }
}

fn remaining(deadline: Instant) -> Result<Duration, Silence> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Silence::TimedOut) } else { Ok(left) }
}
