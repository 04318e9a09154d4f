//! The seed: initialises the interpreter once, then forks one worker per evaluation.
//!
//! The seed never receives user code. It receives one socket per worker over its standard input and
//! answers with the worker's pid. The worker uses the socket as its standard input and output and
//! has no other file descriptor.

use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::fork::{Forked, fork_beside};

/// Role of the process after [`grow`] returns.
pub(crate) enum Grown {
    Worker,
    /// The seed, after the evaluator closed its socket.
    Seed,
}

pub(crate) fn grow() -> std::io::Result<Grown> {
    while let Some(socket) = next()? {
        match fork_beside()? {
            Forked::Copy => {
                rustix::stdio::dup2_stdin(&socket)?;
                rustix::stdio::dup2_stdout(&socket)?;
                return Ok(Grown::Worker);
            }
            Forked::Original { copy } => {
                // Close our copy before reporting the worker, so that the evaluator has the only
                // other end of its socket.
                drop(socket);
                let mut control = std::fs::File::from(rustix::io::dup(rustix::stdio::stdin())?);
                control.write_all(&copy.to_le_bytes())?;
            }
        }
    }
    Ok(Grown::Seed)
}

/// The next socket; `None` when there will be no more.
fn next() -> rustix::io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    loop {
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received =
            recvmsg(rustix::stdio::stdin(), &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        match received {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error),
            Ok(nothing) if nothing.bytes == 0 => return Ok(None),
            Ok(_) => {}
        }
        let sockets = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        if let Some(socket) = sockets.last() {
            return Ok(Some(socket));
        }
    }
}
