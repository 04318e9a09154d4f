//! Requests and responses for execs: commands that clients run in a session's box.

mod request;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use stead_core::exec::{ExecFailureCode, ExecStatus};
use stead_core::{ExecId, SessionId, Timestamp};
use utoipa::ToSchema;

use crate::schema;

pub use request::{
    Argv, CommandLine, ExecRequest, Input, Pty, ResizeRequest, SIGNALS, Signal, SignalRequest, StdinRequest,
};

/// Size of a terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Terminal {
    /// Number of rows.
    pub rows: u16,
    /// Number of columns.
    pub columns: u16,
}

/// The reason why an exec has no result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ExecFailure {
    /// Stable code for programs.
    #[schema(value_type = schema::ExecFailureCode)]
    pub code: ExecFailureCode,
    /// Description for people.
    pub message: String,
}

/// A command in a session's box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Exec {
    /// Id of the exec.
    #[schema(value_type = schema::ExecId)]
    pub id: ExecId,
    /// Session in whose box the command runs.
    #[schema(value_type = schema::SessionId)]
    pub session: SessionId,
    /// `running`, `finished`, `failed` if the command could not be started, or `interrupted` if the
    /// box or the session ended before the command did.
    #[schema(value_type = schema::ExecStatus)]
    pub status: ExecStatus,
    /// Command line as the client wrote it; `null` if the client gave `argv`.
    #[schema(required = true)]
    pub command: Option<String>,
    /// Program and arguments that run in the box.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Names of the environment variables in the request. The server never stores their values.
    pub env: Vec<String>,
    /// True if the request returned at once and the command runs in the background.
    pub background: bool,
    /// Size of the command's terminal when it started; `null` without a terminal.
    #[schema(required = true)]
    pub pty: Option<Terminal>,
    /// Time limit in seconds; `null` for none. The default is 120, or none in the background.
    #[schema(required = true)]
    pub timeout_seconds: Option<u64>,
    /// Time of the start.
    #[schema(value_type = schema::Timestamp)]
    pub started_at: Timestamp,
    /// Time of the end; `null` while the command runs.
    #[schema(value_type = Option<schema::Timestamp>, required = true)]
    pub ended_at: Option<Timestamp>,
    /// Exit code: 128 plus the signal number if a signal ended the command, 124 after a timeout;
    /// `null` without a result.
    #[schema(required = true)]
    pub exit_code: Option<i32>,
    /// Number of the signal that ended the command; `null` if none did.
    #[schema(required = true)]
    pub signal: Option<i32>,
    /// True if the command reached its time limit.
    pub timed_out: bool,
    /// True if a client asked to kill the command.
    pub killed: bool,
    /// True if the box ran out of memory during the command.
    pub oom: bool,
    /// Duration in milliseconds; `null` before the end.
    #[schema(required = true)]
    pub duration_ms: Option<u64>,
    /// Start and end of standard output; the middle of long output is omitted. `null` in lists and
    /// before the end.
    #[schema(required = true)]
    pub stdout: Option<String>,
    /// Start and end of standard error, in the same form as `stdout`.
    #[schema(required = true)]
    pub stderr: Option<String>,
    /// Number of bytes written to standard output; `null` before the end.
    #[schema(required = true)]
    pub stdout_total: Option<u64>,
    /// Number of bytes written to standard error; `null` before the end.
    #[schema(required = true)]
    pub stderr_total: Option<u64>,
    /// True if part of the output is omitted from `stdout` or `stderr`.
    pub truncated: bool,
    /// Number of output chunks on the stream; `null` before the end.
    #[schema(required = true)]
    pub chunks: Option<u64>,
    /// Sequence number of the event that recorded the end; `null` before the end. A rewind to it
    /// restores the files as the command left them.
    #[schema(required = true, minimum = 1)]
    pub seq: Option<u64>,
    /// Reason why there is no result; `null` otherwise.
    #[schema(required = true)]
    pub error: Option<ExecFailure>,
}

/// Output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ChunkStream)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// Encoding of a chunk's bytes in `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ChunkEncoding)]
pub enum Encoding {
    Utf8,
    Base64,
}

/// A range of chunks that the server no longer has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = MissedChunks)]
pub struct Missed {
    /// Number of the first missed chunk.
    #[schema(minimum = 1)]
    pub from: u64,
    /// Number of the last missed chunk.
    #[schema(minimum = 1)]
    pub to: u64,
}

/// A chunk of output on a stream. Chunks are numbered from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = OutputChunk)]
pub struct Chunk {
    /// Number of the chunk.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Stream that the command wrote to. A command with a terminal has only `stdout`.
    pub stream: OutputStream,
    /// `base64` if the bytes are not UTF-8. A chunk may end inside a character.
    pub encoding: Encoding,
    /// Bytes of the chunk.
    pub data: String,
}

/// Output of a command from a chunk on, without waiting for more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OutputPage {
    /// Id of the exec.
    #[schema(value_type = schema::ExecId)]
    pub id: ExecId,
    /// Status of the exec.
    #[schema(value_type = schema::ExecStatus)]
    pub status: ExecStatus,
    /// Exit code; `null` without a result.
    #[schema(required = true)]
    pub exit_code: Option<i32>,
    /// Chunks in order.
    #[schema(inline)]
    pub chunks: Vec<Chunk>,
    /// Ranges of chunks that the server no longer has.
    #[schema(inline)]
    pub missed: Vec<Missed>,
    /// Number of the last chunk so far, for `after` of the next request.
    pub after: u64,
    /// True if there is more output than this answer contains.
    pub more: bool,
}

/// An event on the output stream of a command.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum StreamEvent {
    Output(Chunk),
    Missed(Missed),
    /// The command ended. This is the last event of the stream.
    Finished(Box<Exec>),
}

impl StreamEvent {
    /// The `event` field of the server-sent event.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Output(_) => "output",
            Self::Missed(_) => "missed",
            Self::Finished(_) => "finished",
        }
    }

    /// Reads a server-sent event. `None` for a kind that this version does not know.
    pub fn parse(kind: &str, data: &str) -> Option<Self> {
        match kind {
            "output" => serde_json::from_str(data).ok().map(Self::Output),
            "missed" => serde_json::from_str(data).ok().map(Self::Missed),
            "finished" => serde_json::from_str(data).ok().map(Self::Finished),
            _ => None,
        }
    }
}

impl Chunk {
    /// Encodes bytes as UTF-8 if they are valid UTF-8, else as Base64. A chunk may end inside a
    /// character.
    pub fn new(seq: u64, stream: OutputStream, bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(data) => Self { seq, stream, encoding: Encoding::Utf8, data },
            Err(error) => Self { seq, stream, encoding: Encoding::Base64, data: BASE64.encode(error.as_bytes()) },
        }
    }

    /// Returns the decoded bytes, or `None` if the data does not match its encoding.
    pub fn bytes(self) -> Option<Vec<u8>> {
        match self.encoding {
            Encoding::Utf8 => Some(self.data.into_bytes()),
            Encoding::Base64 => BASE64.decode(self.data).ok(),
        }
    }
}
