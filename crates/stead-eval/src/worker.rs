//! One worker process: started ahead, used once, killed when it must be.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::EvalError;
use crate::protocol::Say;

/// Of one message: the longest text `write_text` takes, with every character escaped.
const MOST_LINE: usize = 32 << 20;

pub(crate) struct Worker {
    child: Child,
    socket: UnixStream,
    buffer: Vec<u8>,
}

/// Why a worker said nothing more.
pub(crate) enum Silence {
    TimedOut,
    /// It ended by itself, with this exit code or signal.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// It said what it must not.
    Nonsense,
}

impl Worker {
    /// Without environment, arguments or inherited descriptors; alone in its process group.
    pub(crate) fn start(program: &Path) -> Result<Self, EvalError> {
        let spawn = || {
            let (socket, theirs) = UnixStream::pair()?;
            let (input, output): (OwnedFd, OwnedFd) = (theirs.try_clone()?.into(), theirs.into());
            let child = Command::new(program)
                .env_clear()
                .current_dir("/")
                .stdin(Stdio::from(input))
                .stdout(Stdio::from(output))
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()?;
            Ok(Self { child, socket, buffer: Vec::new() })
        };
        spawn().map_err(|source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => EvalError::NoWorker { path: program.to_owned() },
            _ => EvalError::Spawn { path: program.to_owned(), source },
        })
    }

    /// Whether it is still there to be used.
    pub(crate) fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
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
                Ok(0) => return Err(self.ended()),
                Ok(count) => self.buffer.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.silence(&error)),
            }
        }
    }

    fn silence(&mut self, error: &std::io::Error) -> Silence {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        if matches!(error.kind(), TimedOut | WouldBlock) { Silence::TimedOut } else { self.ended() }
    }

    /// It closed its end: it has ended, or is made to.
    fn ended(&mut self) -> Silence {
        let status = self.child.wait().ok();
        Silence::Ended {
            code: status.and_then(|status| status.code()),
            signal: status.and_then(|status| status.signal()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Errors mean that it is gone. It cannot have children: it may not make any.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn remaining(deadline: Instant) -> Result<Duration, Silence> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Silence::TimedOut) } else { Ok(left) }
}
