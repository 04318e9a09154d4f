//! The seed: a process with an initialized interpreter from which workers are forked. It never
//! receives code.

use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::Pid;

use crate::error::EvalError;
use crate::worker::Worker;

/// Timeout for an answer; the first answer waits for the interpreter to start.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Seed {
    child: Child,
    control: UnixStream,
}

impl Seed {
    /// Starts a seed without environment, arguments or inherited descriptors, in its own process
    /// group.
    pub(crate) fn start(program: &Path) -> Result<Self, EvalError> {
        let spawn = || {
            let (control, theirs) = UnixStream::pair()?;
            control.set_read_timeout(Some(PATIENCE))?;
            let (input, output): (OwnedFd, OwnedFd) = (theirs.try_clone()?.into(), theirs.into());
            let child = Command::new(program)
                .env_clear()
                .current_dir("/")
                .stdin(Stdio::from(input))
                .stdout(Stdio::from(output))
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()?;
            Ok(Self { child, control })
        };
        spawn().map_err(|source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => EvalError::NoWorker { path: program.to_owned() },
            _ => EvalError::Spawn { path: program.to_owned(), source },
        })
    }

    #[cfg(test)]
    pub(crate) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    /// Forks an unused worker. After an error the seed must be replaced.
    pub(crate) fn grow(&mut self) -> std::io::Result<Worker> {
        let (socket, theirs) = UnixStream::pair()?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let lent = [theirs.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&lent));
        sendmsg(&self.control, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
        drop(theirs);
        let mut number = [0; 4];
        self.control.read_exact(&mut number)?;
        let pid = Pid::from_raw(i32::from_le_bytes(number)).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(Worker::new(pid, socket))
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        // An error means that the process has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
