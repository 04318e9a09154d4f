//! One connection from the server: incoming bytes, outgoing frames, and pending requests.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::job::failed;
use crate::protocol::{AfterRun, Answer, Decoder, GuestErrorKind, ProtocolError, Reply, Request, encode};

/// Unsent bytes at which init stops reading requests, so that a client that does not read cannot
/// fill its memory.
const STOP_READING: usize = 1 << 20;
/// Maximum number of received files that wait for their request.
const MOST_FILES: usize = 4;
/// Unsent bytes at which output stays in the ring buffer.
const STOP_FOLLOWING: usize = 256 << 10;

/// Size of a piece of a file, in bytes.
const PIECE: usize = 512 << 10;

/// Makes an unnamed file in the box.
fn nameless() -> std::io::Result<File> {
    let path = format!("/tmp/.stead-carried-{}", rustix::process::getpid().as_raw_nonzero());
    let _ = std::fs::remove_file(&path);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) stream: UnixStream,
    decoder: Decoder,
    /// Received files, in the order of the requests that take them.
    files: VecDeque<OwnedFd>,
    /// File that is transferred in pieces, in or out, where descriptors cannot be passed.
    carried: Option<File>,
    unsent: Vec<u8>,
    sent: usize,
    pub(super) greeted: bool,
    /// Requests that wait for the end of an exec.
    pub(super) waiting: Vec<Waiting>,
    pub(super) following: Vec<Following>,
    closed: bool,
}

/// A request that waits for the end of an exec.
pub(super) struct Waiting {
    pub(super) request: u64,
    pub(super) exec: String,
    pub(super) then: AfterRun,
}

/// A request for an exec's output, and the number of the next chunk to send.
pub(super) struct Following {
    pub(super) request: u64,
    pub(super) exec: String,
    pub(super) next: u64,
}

impl Connection {
    pub(super) fn new(number: u64, stream: UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            number,
            stream,
            decoder: Decoder::of_requests(),
            files: VecDeque::new(),
            carried: None,
            unsent: Vec::new(),
            sent: 0,
            greeted: false,
            waiting: Vec::new(),
            following: Vec::new(),
            closed: false,
        })
    }

    /// Returns true if no request is pending and no data is in transit.
    pub(super) fn is_quiet(&self) -> bool {
        let unread = rustix::io::ioctl_fionread(&self.stream).unwrap_or(0);
        self.closed || (self.waiting.is_empty() && self.following.is_empty() && self.unsent.is_empty() && unread == 0)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    fn backlog(&self) -> usize {
        self.unsent.len() - self.sent
    }

    pub(super) fn wants_to_write(&self) -> bool {
        self.backlog() > 0
    }

    pub(super) fn wants_to_read(&self) -> bool {
        self.backlog() < STOP_READING
    }

    pub(super) fn has_room(&self) -> bool {
        self.backlog() < STOP_FOLLOWING
    }

    /// Reads once. [`Connection::next`] returns the frames.
    pub(super) fn read(&mut self) {
        let mut buffer = [0; 64 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(&self.stream, &mut [IoSliceMut::new(&mut buffer)], &mut control, RecvFlags::CMSG_CLOEXEC);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                self.files.extend(files);
            }
        }
        match received {
            Ok(received) if received.bytes > 0 && self.files.len() <= MOST_FILES => {
                self.decoder.push(&buffer[..received.bytes]);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            _ => self.closed = true,
        }
    }

    pub(super) fn take_file(&mut self) -> Option<OwnedFd> {
        let carried = || {
            let mut file = self.carried.as_ref()?.try_clone().ok()?;
            file.rewind().ok()?;
            Some(file.into())
        };
        self.files.pop_front().or_else(carried)
    }

    /// Stores a piece of a file for the next request. The first piece creates a new file.
    pub(super) fn carry(&mut self, at: u64, piece: &[u8]) -> std::io::Result<()> {
        if at == 0 {
            self.carried = Some(nameless()?);
        }
        self.carried.as_ref().map_or(Ok(()), |file| file.write_all_at(piece, at))
    }

    /// Returns a piece of the file's current content.
    pub(super) fn fetch(&self, from: u64) -> std::io::Result<Vec<u8>> {
        let mut piece = vec![0; PIECE];
        let read = self.carried.as_ref().map_or(Ok(0), |file| file.read_at(&mut piece, from))?;
        piece.truncate(read);
        Ok(piece)
    }

    pub(super) fn next(&mut self) -> Result<Option<(Request, Vec<u8>)>, ProtocolError> {
        self.decoder.take()
    }

    pub(super) fn answer(&mut self, request: u64, answer: Answer, body: &[u8]) {
        match encode(&Reply { id: request, answer }, body) {
            Ok(frame) => self.send(&frame),
            // The response exceeds the frame limit. No response of init is that large, so close the
            // connection.
            Err(_) => self.closed = true,
        }
    }

    /// Answers with `done` and descriptors, which come with the first byte of the frame.
    pub(super) fn lend(&mut self, request: u64, files: &[&OwnedFd]) {
        if self.wants_to_write() {
            // The descriptors would come with the bytes of another answer.
            return self.answer(request, failed(GuestErrorKind::Busy, "the connection has other answers to send"), &[]);
        }
        let sent = encode(&Reply { id: request, answer: Answer::Done }, &[]).ok().and_then(|frame| {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
            if !control.push(SendAncillaryMessage::ScmRights(&files)) {
                return None;
            }
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let sent = sendmsg(&self.stream, &[IoSlice::new(&frame)], &mut control, flags).ok()?;
            Some(frame[sent..].to_vec())
        });
        match sent {
            Some(rest) => self.send(&rest),
            None => self.closed = true,
        }
    }

    /// Answers with a descriptor. It belongs to the first byte of the frame, so nothing else may be
    /// unsent. Closes the connection if that is not possible.
    pub(super) fn answer_with(&mut self, request: u64, answer: Answer, descriptor: &OwnedFd) {
        self.write();
        let sent = encode(&Reply { id: request, answer }, &[]).ok().filter(|_| self.backlog() == 0).and_then(|frame| {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = [descriptor.as_fd()];
            let room = control.push(SendAncillaryMessage::ScmRights(&descriptors));
            let sent = sendmsg(&self.stream, &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL).ok()?;
            (room && sent == frame.len()).then_some(())
        });
        self.closed |= sent.is_none();
    }

    /// Returns the stream, for bytes without frames. `None` if any frame is in transit.
    pub(super) fn into_stream(self) -> Option<UnixStream> {
        (self.decoder.is_empty() && self.backlog() == 0 && !self.closed).then_some(self.stream)
    }

    /// Sends an encoded frame.
    pub(super) fn send(&mut self, frame: &[u8]) {
        self.unsent.extend_from_slice(frame);
        self.write();
    }

    pub(super) fn write(&mut self) {
        while self.sent < self.unsent.len() {
            match self.stream.write(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.closed = true;
                    break;
                }
            }
        }
        if self.sent == self.unsent.len() {
            self.sent = 0;
            self.unsent.clear();
            self.unsent.shrink_to(64 << 10);
        } else if self.sent > STOP_READING {
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
    }
}
