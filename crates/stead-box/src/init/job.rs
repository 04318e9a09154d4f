//! File operations, each in a short-lived child of init.
//!
//! This way a grep over a large tree blocks no other request, can be killed at a deadline, and its
//! memory is freed afterwards. Calls that change files run one after the other, in the order of
//! their arrival. Read-only calls run concurrently.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::{Errno, read};
use rustix::process::{Pid, Signal, kill_process};
use stead_fs::tools::{self, Call, FileTool};
use stead_fs::{DiskFs, Durability};

use super::{Compared, files};
use crate::build;
use crate::protocol::{
    Answer, FileAsk, GuestError, GuestErrorKind, MAX_FRAME, ProtocolError, Reply, ToolCall, ToolReply, encode,
};
use crate::spec::WORKSPACE;
use crate::sys::clone::{self, Side};

/// Timeout of a file operation, which may transfer a whole tree.
const FILES_TIMEOUT: Duration = Duration::from_secs(600);
/// Timeout of an export into a pipe. It takes as long as the reader, which the server monitors.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

pub(super) enum Work {
    Tool(Box<ToolCall>),
    Files { ask: Box<FileAsk>, file: Option<OwnedFd> },
}

/// A call that has not started.
pub(super) struct Queued {
    pub(super) connection: u64,
    pub(super) request: u64,
    pub(super) work: Work,
}

impl Queued {
    pub(super) fn changes_files(&self) -> bool {
        match &self.work {
            Work::Tool(call) => call.tool.parse::<FileTool>().map_or(true, FileTool::changes_files),
            Work::Files { ask, .. } => ask.changes_files(),
        }
    }

    fn timeout(&self) -> Duration {
        match &self.work {
            Work::Tool(call) => Duration::from_millis(call.timeout_ms),
            Work::Files { ask, .. }
                if matches!(
                    **ask,
                    FileAsk::Export { .. } | FileAsk::ExportWorkingTree { .. } | FileAsk::RestoreWorkingTree
                ) =>
            {
                EXPORT_TIMEOUT
            }
            Work::Files { .. } => FILES_TIMEOUT,
        }
    }
}

/// A running call.
pub(super) struct Job {
    pub(super) connection: u64,
    pub(super) request: u64,
    pub(super) changes_files: bool,
    pub(super) pipe: OwnedFd,
    pub(super) deadline: Instant,
    pub(super) child: Pid,
    frame: Vec<u8>,
}

impl Job {
    pub(super) fn start(queued: Queued, compared: Option<&Compared>) -> Result<Self, (Queued, io::Error)> {
        let (from, to) = match io::pipe() {
            Ok(pipe) => pipe,
            Err(error) => return Err((queued, error)),
        };
        match clone::fork() {
            Err(error) => Err((queued, error)),
            Ok(Side::Child) => {
                drop(from);
                if build::close_child().is_err() {
                    clone::leave(1);
                }
                let (answer, body) = perform(&queued.work, compared);
                let frame = frame_of(queued.request, answer, &body);
                let sent = frame.is_ok_and(|frame| File::from(OwnedFd::from(to)).write_all(&frame).is_ok());
                clone::leave(i32::from(!sent))
            }
            Ok(Side::Parent(child)) => {
                let _ = rustix::io::ioctl_fionbio(&from, true);
                let (changes_files, deadline) = (queued.changes_files(), Instant::now() + queued.timeout());
                let Queued { connection, request, .. } = queued;
                Ok(Self { connection, request, changes_files, pipe: from.into(), deadline, child, frame: Vec::new() })
            }
        }
    }

    /// Reads available data. Returns `Some` when the child has closed the pipe: its frame, or the
    /// reason why there is none.
    pub(super) fn read(&mut self) -> Option<Result<Vec<u8>, Answer>> {
        let mut buffer = [0; 64 << 10];
        loop {
            match read(&self.pipe, &mut buffer) {
                Ok(0) if self.frame.is_empty() => {
                    return Some(Err(failed(GuestErrorKind::ToolEnded, "the tool was ended")));
                }
                Ok(0) => return Some(Ok(std::mem::take(&mut self.frame))),
                Ok(count) => self.frame.extend_from_slice(&buffer[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return None,
                Err(_) => return Some(Err(failed(GuestErrorKind::ToolEnded, "the tool's answer is lost"))),
            }
            if self.frame.len() > MAX_FRAME + 8 {
                self.kill();
                return Some(Err(failed(
                    GuestErrorKind::TooLarge { size: None },
                    "the tool's answer is larger than a frame",
                )));
            }
        }
    }

    pub(super) fn kill(&self) {
        let _ = kill_process(self.child, Signal::KILL);
    }
}

pub(super) fn failed(kind: GuestErrorKind, message: impl Into<String>) -> Answer {
    Answer::Failed(GuestError::new(kind, message))
}

/// Encodes the answer. One that does not fit into a frame becomes an error that says so.
fn frame_of(request: u64, answer: Answer, body: &[u8]) -> Result<Vec<u8>, ProtocolError> {
    match encode(&Reply { id: request, answer }, body) {
        Err(ProtocolError::TooLong { .. } | ProtocolError::BadHead { .. }) => {
            let answer = failed(GuestErrorKind::TooLarge { size: None }, "the tool's answer is larger than a frame");
            encode(&Reply { id: request, answer }, &[])
        }
        encoded => encoded,
    }
}

/// Performs the operation, in the child.
fn perform(work: &Work, compared: Option<&Compared>) -> (Answer, Vec<u8>) {
    // An acknowledged change survives a power loss, so each one waits for the disk.
    let mut files = match DiskFs::open(Path::new(WORKSPACE)) {
        Ok(files) => files.with_durability(Durability::Synced),
        Err(error) => return (failed(GuestErrorKind::NoWorkspace, error.to_string()), Vec::new()),
    };
    match work {
        Work::Tool(call) => tool(&mut files, call),
        Work::Files { ask, file } => {
            let mounted = if compared.is_none() { Compared::mounted() } else { None };
            files::perform(&mut files, ask, file.as_ref(), compared.or(mounted.as_ref()))
        }
    }
}

fn tool(files: &mut DiskFs, call: &ToolCall) -> (Answer, Vec<u8>) {
    let Ok(tool) = call.tool.parse::<FileTool>() else {
        let message = format!("{:?} is not a file tool", call.tool);
        return (failed(GuestErrorKind::UnknownTool, message), Vec::new());
    };
    let call = Call { tool, arguments: &call.arguments, limits: &call.limits, now_millis: call.now_millis };
    let reply = tools::call(files, call);
    match reply.outcome {
        // Only a key that is not text cannot be encoded, and a result has none.
        Ok(result) => {
            let body = serde_json::to_vec(&result).unwrap_or_default();
            (Answer::Tool(ToolReply { result: None, code: None, hint: None, message: reply.message }), body)
        }
        Err(error) => {
            let (code, hint, message) = (Some(error.code.to_owned()), error.hint, error.message);
            (Answer::Tool(ToolReply { result: None, code, hint, message }), Vec::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::read_frame;

    #[test]
    fn an_answer_that_is_too_long_is_an_error_of_its_own() {
        let long = || failed(GuestErrorKind::Io, "x".repeat(MAX_FRAME / 2));
        for (answer, bytes, fits) in
            [(Answer::Done, 1 << 10, true), (Answer::Done, MAX_FRAME, false), (long(), 0, false)]
        {
            let frame = frame_of(7, answer, &vec![0; bytes]).unwrap();
            let (reply, body): (Reply, Vec<u8>) = read_frame(&frame).unwrap().unwrap();
            let kind = if let Answer::Failed(error) = reply.answer { Some(error.kind) } else { None };
            let expected = (!fits).then_some(GuestErrorKind::TooLarge { size: None });
            assert_eq!((reply.id, kind, body.len()), (7, expected, if fits { bytes } else { 0 }));
        }
    }
}
