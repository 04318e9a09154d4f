//! The server's client of the guest. It is blocking, sends one request at a time, and trusts no
//! response.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::lent::{self, LendingReader};
use super::port::DescriptorReader;
use crate::build::NetworkSockets;
use crate::error::{At, BoxError};
use crate::protocol::{
    AfterRun, Answer, Ask, ExecOrder, ExecResult, ExecStatus, FileAsk, GuestError, GuestErrorKind, MAX_FRAME,
    ProtocolError, ReadError, Reply, Request, Stream, TerminalSize, ToolCall, ToolReply, VERSION, encode_request,
    receive,
};

/// Timeout of a simple request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Timeout of a file operation, which may transfer a whole tree.
const FILES_PATIENCE: Duration = Duration::from_secs(630);

/// Result of a command, with the start and end of its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub result: ExecResult,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// A message from a followed command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// Chunk `number`. A gap in the numbers means that the box has dropped output.
    Output { stream: Stream, number: u64, bytes: Vec<u8> },
    /// The command ended. This is the last message.
    Finished(ExecResult),
}

/// A connection to a box. After an error, open a new one. The box is not affected.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    last: u64,
    lending: Lending,
}

/// Method of passing files to the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lending {
    ByDescriptor,
    /// The box's kernel cannot receive descriptors.
    InPieces,
}

/// Size of a piece of a file, in bytes.
const PIECE: usize = 512 << 10;

impl Connection {
    pub(super) fn open(directory: &Path) -> Result<Self, BoxError> {
        // Use a descriptor, because a socket path is limited to about a hundred bytes and the
        // directory's path may be longer.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, directory, flags, Mode::empty()).at("open", directory)?;
        let path = format!("/proc/self/fd/{}/control.sock", fd.as_raw_fd());
        let stream = UnixStream::connect(path).map_err(BoxError::Lost)?;
        Self::greet(stream, Lending::ByDescriptor)
    }

    pub(super) fn greet(stream: UnixStream, lending: Lending) -> Result<Self, BoxError> {
        stream.set_write_timeout(Some(PATIENCE)).map_err(BoxError::Lost)?;
        let mut connection = Self { stream, last: 0, lending };
        match connection.ask(Ask::Hello { version: VERSION }, &[], Some(PATIENCE))? {
            (Answer::Hello { version: VERSION }, _) => Ok(connection),
            (Answer::Hello { version }, _) => Err(ProtocolError::Version { ours: VERSION, theirs: version }.into()),
            _ => Err(unexpected("to hello")),
        }
    }

    fn send(&mut self, ask: Ask, body: &[u8]) -> Result<(), BoxError> {
        self.last += 1;
        let frame = encode_request(&Request { id: self.last, ask }, body)?;
        self.stream.write_all(&frame).map_err(BoxError::Lost)
    }

    /// Receives the next response to the last request. A refusal is an error.
    fn receive(&mut self, patience: Option<Duration>) -> Result<(Answer, Vec<u8>), BoxError> {
        self.stream.set_read_timeout(patience).map_err(BoxError::Lost)?;
        let received = receive(&mut self.stream);
        self.reply(received)
    }

    fn reply(&self, received: Result<(Reply, Vec<u8>), ReadError>) -> Result<(Answer, Vec<u8>), BoxError> {
        let (reply, body) = received.map_err(|error| match error {
            ReadError::Io(error) => BoxError::Lost(error),
            ReadError::Protocol(error) => BoxError::Protocol(error),
        })?;
        if reply.id != self.last {
            return Err(unexpected("with another request's number"));
        }
        Ok((reply.answer.or_refusal()?, body))
    }

    fn ask(&mut self, ask: Ask, body: &[u8], patience: Option<Duration>) -> Result<(Answer, Vec<u8>), BoxError> {
        self.send(ask, body)?;
        self.receive(patience)
    }

    /// Asks for something that comes as descriptors. Any other number of them is the caller's
    /// error.
    pub(super) fn ask_for_descriptors(
        &mut self,
        ask: Ask,
        patience: Duration,
    ) -> Result<(Answer, Vec<OwnedFd>), BoxError> {
        self.send(ask, &[])?;
        self.stream.set_read_timeout(Some(patience)).map_err(BoxError::Lost)?;
        let mut reader = DescriptorReader::new(&self.stream);
        let received = receive(&mut reader);
        let descriptors = reader.descriptors;
        Ok((self.reply(received)?.0, descriptors))
    }

    fn expect_done(&mut self, ask: Ask) -> Result<(), BoxError> {
        self.expect_done_with_body(ask, &[])
    }

    fn expect_done_with_body(&mut self, ask: Ask, body: &[u8]) -> Result<(), BoxError> {
        match self.ask(ask, body, Some(PATIENCE))? {
            (Answer::Done, _) => Ok(()),
            _ => Err(unexpected("where only 'done' is valid")),
        }
    }

    /// Starts a command. `input` is its standard input if the order says so.
    pub fn start(&mut self, order: ExecOrder, input: &[u8]) -> Result<(), BoxError> {
        match self.ask(Ask::Exec(Box::new(order)), input, Some(PATIENCE))? {
            (Answer::Started, _) => Ok(()),
            _ => Err(unexpected("to exec")),
        }
    }

    /// Waits for the end of a command, without a timeout.
    pub fn wait(&mut self, exec: &str) -> Result<Finished, BoxError> {
        let answer = self.ask(Ask::Wait { exec: exec.to_owned() }, &[], None)?;
        Finished::read(answer)
    }

    /// Starts a command, waits for it, and removes it from the box.
    ///
    /// If the command has a deadline, this waits only a little longer than the deadline.
    pub fn run(&mut self, order: ExecOrder, input: &[u8]) -> Result<Finished, BoxError> {
        let patience = order.timeout_ms.map(|millis| Duration::from_millis(millis) + PATIENCE);
        let ask = Ask::Run { order: Box::new(order), then: AfterRun::Forget };
        Finished::read(self.ask(ask, input, patience)?)
    }

    /// Kills every process of a command. Returns when none is left.
    pub fn kill(&mut self, exec: &str) -> Result<Finished, BoxError> {
        let answer = self.ask(Ask::Kill { exec: exec.to_owned() }, &[], Some(PATIENCE))?;
        Finished::read(answer)
    }

    pub fn signal(&mut self, exec: &str, signal: i32) -> Result<(), BoxError> {
        self.expect_done(Ask::Signal { exec: exec.to_owned(), signal })
    }

    pub fn resize(&mut self, exec: &str, size: TerminalSize) -> Result<(), BoxError> {
        self.expect_done(Ask::Resize { exec: exec.to_owned(), size })
    }

    /// Adds environment variables for all future commands of the box.
    pub fn bind(&mut self, env: std::collections::BTreeMap<String, String>) -> Result<(), BoxError> {
        self.expect_done(Ask::Bind { env })
    }

    pub fn forget(&mut self, exec: &str) -> Result<(), BoxError> {
        self.expect_done(Ask::Forget { exec: exec.to_owned() })
    }

    /// Writes to the standard input of a running command and returns the number of accepted bytes.
    /// With `InputEnd::Last`, and if all bytes were accepted, the input is then closed.
    pub fn input(&mut self, exec: &str, bytes: &[u8], end: InputEnd) -> Result<u64, BoxError> {
        let ask = Ask::Input { exec: exec.to_owned(), end: end == InputEnd::Last };
        match self.ask(ask, bytes, Some(PATIENCE))? {
            (Answer::Accepted { bytes }, _) => Ok(bytes),
            _ => Err(unexpected("to input")),
        }
    }

    pub fn list(&mut self) -> Result<Vec<ExecStatus>, BoxError> {
        match self.ask(Ask::List, &[], Some(PATIENCE))? {
            (Answer::Execs { execs, .. }, _) => Ok(execs),
            _ => Err(unexpected("to list")),
        }
    }

    /// Starts to follow a command's output from chunk `from` on. Then call [`Connection::followed`]
    /// until it returns the end.
    pub fn follow(&mut self, exec: &str, from: u64) -> Result<(), BoxError> {
        self.send(Ask::Attach { exec: exec.to_owned(), from }, &[])
    }

    pub fn followed(&mut self) -> Result<Followed, BoxError> {
        self.followed_within(None)
    }

    /// Like [`Self::followed`], with a timeout; `None` to wait without one.
    pub fn followed_within(&mut self, patience: Option<Duration>) -> Result<Followed, BoxError> {
        match self.receive(patience)? {
            (Answer::Output { stream, number }, bytes) => Ok(Followed::Output { stream, number, bytes }),
            (Answer::Finished(result), _) => Ok(Followed::Finished(result)),
            _ => Err(unexpected("to attach")),
        }
    }

    /// Calls one of the agent's file tools.
    pub fn tool(&mut self, call: ToolCall) -> Result<ToolReply, BoxError> {
        let patience = Duration::from_millis(call.timeout_ms) + PATIENCE;
        let arguments = serde_json::to_vec(&call.arguments).map_err(ProtocolError::NotAMessage)?;
        match self.ask(Ask::Tool(Box::new(call)), &arguments, Some(patience))? {
            (Answer::Tool(reply), result) if result.is_empty() => Ok(reply),
            (Answer::Tool(reply), result) => {
                let result = serde_json::from_slice(&result).map_err(ProtocolError::NotAMessage)?;
                Ok(ToolReply { result: Some(result), ..reply })
            }
            _ => Err(unexpected("to a tool call")),
        }
    }

    /// Reads or changes files. If the request needs a file, `file` is passed to the box.
    pub fn files(&mut self, ask: FileAsk, file: Option<&File>) -> Result<(Answer, Vec<u8>), BoxError> {
        match file {
            Some(file) if self.lending == Lending::InPieces => self.files_in_pieces(ask, file),
            file => self.files_by_descriptor(ask, file, Some(FILES_PATIENCE)),
        }
    }

    /// Makes the box write the tree below a path as a tar archive into a pipe. This takes as long
    /// as the pipe's reader needs, and fails if the reader is gone.
    pub fn export(&mut self, path: &str, most_bytes: u64, pipe: &File) -> Result<(), BoxError> {
        let ask = FileAsk::Export { path: path.to_owned(), most_bytes };
        match self.lending {
            Lending::InPieces => self.files_in_pieces(ask, pipe).map(drop),
            _ => self.files_by_descriptor(ask, Some(pipe), None).map(drop),
        }
    }

    fn files_in_pieces(&mut self, ask: FileAsk, file: &File) -> Result<(Answer, Vec<u8>), BoxError> {
        let (most, mut at, mut piece) = (ask.most_filled(), 0, vec![0; PIECE]);
        loop {
            let count = if most.is_some() { 0 } else { file.read_at(&mut piece, at).map_err(BoxError::Lost)? };
            if count > 0 || at == 0 {
                self.expect_done_with_body(Ask::Carry { at }, &piece[..count])?;
            }
            if count == 0 {
                break;
            }
            at += count as u64;
        }
        let answer = self.ask(Ask::Files(Box::new(ask)), &[], Some(FILES_PATIENCE))?;
        if let Some(most) = most {
            self.fetch_into(file, most)?;
        }
        Ok(answer)
    }

    /// Writes the pieces in order, because the file may be a pipe.
    fn fetch_into(&mut self, mut file: &File, most: u64) -> Result<(), BoxError> {
        let mut from = 0;
        loop {
            match self.ask(Ask::Fetch { from }, &[], Some(PATIENCE))? {
                (Answer::Piece, piece) if piece.is_empty() => return Ok(()),
                // Stop a box that sends more than the limit.
                (Answer::Piece, _) if from > most => return Err(unexpected("that has no end")),
                (Answer::Piece, piece) => {
                    file.write_all(&piece).map_err(BoxError::Lost)?;
                    from += piece.len() as u64;
                }
                _ => return Err(unexpected("to fetch")),
            }
        }
    }

    fn files_by_descriptor(
        &mut self,
        ask: FileAsk,
        file: Option<&File>,
        patience: Option<Duration>,
    ) -> Result<(Answer, Vec<u8>), BoxError> {
        self.last += 1;
        let frame = encode_request(&Request { id: self.last, ask: Ask::Files(Box::new(ask)) }, &[])?;
        let sent = match file {
            Some(file) => send_with(&self.stream, &frame, file).map_err(BoxError::Lost)?,
            None => 0,
        };
        self.stream.write_all(&frame[sent..]).map_err(BoxError::Lost)?;
        self.receive(patience)
    }

    /// Borrows the sockets of the box's network, and checks that they are what they should be.
    pub fn sockets(&mut self) -> Result<NetworkSockets, BoxError> {
        self.send(Ask::Sockets, &[])?;
        let files = self.receive_lent()?;
        lent::network(files)
    }

    /// Receives the answer `done` with its descriptors. No other answer may come with any.
    fn receive_lent(&mut self) -> Result<Vec<OwnedFd>, BoxError> {
        self.stream.set_read_timeout(Some(PATIENCE)).map_err(BoxError::Lost)?;
        let mut reader = LendingReader::new(&self.stream);
        let received = receive(&mut reader);
        let files = reader.into_files()?;
        match self.reply(received)? {
            (Answer::Done, _) => Ok(files),
            _ => Err(unexpected("where only 'done' is valid")),
        }
    }

    /// Returns a second handle on the connection. Shutting it down ends the request that a thread
    /// waits for.
    pub fn handle(&self) -> io::Result<UnixStream> {
        self.stream.try_clone()
    }

    /// Returns the stream after the handshake, for another implementation of the protocol.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Ends the box if it is idle, and waits until it stops responding. Returns false if it is
    /// busy.
    pub fn rest(&mut self) -> Result<bool, BoxError> {
        self.unless_busy(Ask::Rest)
    }

    /// Closes all other connections if the box is idle. Returns false if it is busy. The box keeps
    /// running.
    pub fn be_alone(&mut self) -> Result<bool, BoxError> {
        self.unless_busy(Ask::Alone)
    }

    fn unless_busy(&mut self, ask: Ask) -> Result<bool, BoxError> {
        // The box syncs its files to the disk first, so this may take long.
        match self.ask(ask, &[], Some(FILES_PATIENCE)) {
            Ok((Answer::Done, _)) => Ok(true),
            Ok(_) => Err(unexpected("to rest")),
            Err(BoxError::Guest(GuestError { kind: GuestErrorKind::Busy, .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends the box from inside: process 1 exits, and the kernel kills the rest.
    pub fn shut_down(mut self) -> Result<(), BoxError> {
        self.send(Ask::Shutdown, &[])
    }
}

/// Sends the first bytes of a frame together with a file. Returns the number of bytes sent.
fn send_with(stream: &UnixStream, frame: &[u8], file: &File) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("no room for a file"));
    }
    Ok(sendmsg(stream, &[IoSlice::new(frame)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Marks whether more input follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputEnd {
    More,
    Last,
}

fn unexpected(what: &'static str) -> BoxError {
    ProtocolError::Unexpected { what }.into()
}

impl Finished {
    /// Parses the response to a wait. Returns an error if it is another response or its lengths are
    /// wrong.
    pub fn read((answer, body): (Answer, Vec<u8>)) -> Result<Self, BoxError> {
        let Answer::Finished(result) = answer else { return Err(unexpected("to a wait")) };
        let length =
            |kept: crate::protocol::Kept| kept.head.checked_add(kept.tail).filter(|sum| *sum <= MAX_FRAME as u64);
        match (length(result.stdout), length(result.stderr)) {
            (Some(stdout), Some(stderr)) if stdout + stderr == body.len() as u64 => {
                let (stdout, stderr) = body.split_at(stdout as usize);
                Ok(Finished { stdout: stdout.to_vec(), stderr: stderr.to_vec(), result })
            }
            _ => Err(unexpected("whose lengths do not add up")),
        }
    }
}
