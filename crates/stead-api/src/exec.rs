//! Requests and responses for execs: commands that clients run in a session's box.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stead_core::env::Env;
use stead_core::exec::{ExecOrder, ExecSpec, ExecStatus, Stdin, TerminalSize, Unread};
use stead_core::parse::{FieldPath, Fields, Read};
use stead_core::plan::WORKSPACE_ROOT;
use stead_core::{ExecId, SessionId, Timestamp};
use utoipa::ToSchema;

use crate::schema;

/// Default time limit in seconds for a command in the foreground. The client holds a connection
/// until such a command ends.
pub const USUAL_SECONDS: u64 = 120;
pub const MOST_SECONDS: u64 = 86_400;
pub const MOST_WORDS: usize = 4_096;
/// Maximum number of characters of standard input in one request.
pub const MOST_STDIN: usize = 1 << 20;
pub const MOST_CELLS: u64 = 4_096;

#[derive(Debug)]
pub struct ExecRequest(pub ExecOrder);

impl Read for ExecRequest {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let command = fields.optional::<String>("command");
        let argv = fields.optional::<Vec<String>>("argv");
        match (&command, &argv) {
            (Some(_), Some(_)) => fields.fail("argv", "give command or argv, not both"),
            (None, None) if !fields.has("command") && !fields.has("argv") => {
                fields.fail("command", "is required, or argv");
            }
            (Some(text), None) if text.is_empty() => fields.fail("command", "must not be empty"),
            (None, Some(words)) if words.first().is_none_or(String::is_empty) => {
                fields.fail("argv", "must begin with a program");
            }
            (None, Some(words)) if words.len() > MOST_WORDS => {
                fields.fail("argv", format!("has at most {MOST_WORDS} words"));
            }
            _ => {}
        }
        let cwd = match fields.optional::<String>("cwd") {
            None => WORKSPACE_ROOT.to_owned(),
            Some(path) if path.starts_with('/') => path,
            Some(path) => format!("{WORKSPACE_ROOT}/{path}"),
        };
        let env = fields.or("env", Env::default());
        let stdin = fields.optional::<Input>("stdin").unwrap_or(Input { bytes: Vec::new(), stdin: Stdin::Closed });
        let background = fields.or("background", false);
        // 0 is outside of the accepted range, so it can stand for "no timeout given".
        let timeout = Some(fields.number_or("timeout_seconds", 1..=MOST_SECONDS, 0)).filter(|seconds| *seconds > 0);
        let pty = fields.optional::<Pty>("pty").and_then(|pty| pty.0);
        let unread = fields.or("unread", Unread::Drop);
        fields.done();
        let argv = match (&command, argv) {
            (Some(text), _) => ["/bin/bash", "-c", text].map(str::to_owned).into(),
            (None, argv) => argv?,
        };
        let spec = ExecSpec {
            command,
            argv,
            cwd,
            env: env.iter().map(|(name, _)| name.to_owned()).collect(),
            stdin_bytes: stdin.bytes.len() as u64,
            // A command with a terminal always has an open standard input.
            stdin: if pty.is_some() { Stdin::Open } else { stdin.stdin },
            timeout_seconds: timeout.or((!background).then_some(USUAL_SECONDS)),
            background,
            pty,
            unread,
        };
        Some(Self(ExecOrder { spec, env, stdin: stdin.bytes }))
    }
}

/// Initial standard input. A string is followed by end of file. `true` keeps the input open for
/// `/stdin`.
pub struct Input {
    pub bytes: Vec<u8>,
    pub stdin: Stdin,
}

impl Read for Input {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::Bool(true) => Some(Self { bytes: Vec::new(), stdin: Stdin::Open }),
            Value::Bool(false) => Some(Self { bytes: Vec::new(), stdin: Stdin::Closed }),
            // Unlike a name or a command, standard input may contain NUL characters.
            Value::String(text) if text.chars().count() <= MOST_STDIN => {
                Some(Self { bytes: text.into_bytes(), stdin: Stdin::Closed })
            }
            Value::String(_) => at.fail(format!("has at most {MOST_STDIN} characters; send more with /stdin")),
            _ => at.fail("expected a string, or true to send it later"),
        }
    }
}

/// A terminal request: `true` for 24 rows and 80 columns, or an explicit size.
struct Pty(Option<TerminalSize>);

impl Read for Pty {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::Bool(false) => Some(Self(None)),
            Value::Bool(true) => Some(Self(Some(TerminalSize { rows: 24, columns: 80 }))),
            Value::Object(_) => Resize::read(value, at).map(|size| Self(Some(size.0))),
            _ => at.fail("expected true or {rows, columns}"),
        }
    }
}

pub struct Resize(pub TerminalSize);

impl Read for Resize {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let mut side = |name| {
            let number = fields.required::<u64>(name)?;
            if (1..=MOST_CELLS).contains(&number) {
                return u16::try_from(number).ok();
            }
            fields.fail(name, format!("must be between 1 and {MOST_CELLS}, not {number}"));
            None
        };
        let (rows, columns) = (side("rows"), side("columns"));
        fields.done();
        Some(Self(TerminalSize { rows: rows?, columns: columns? }))
    }
}

/// Bytes to append to the standard input of a running command, and whether to close it after them.
pub struct StdinRequest {
    pub bytes: Vec<u8>,
    pub close: bool,
}

impl Read for StdinRequest {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let data = fields.optional::<AnyText>("data").map(|text| text.0).unwrap_or_default();
        let encoding = fields.optional::<String>("encoding");
        let close = fields.or("close", false);
        let bytes = match encoding.as_deref() {
            None | Some("utf8") => Some(data.into_bytes()),
            Some("base64") => match BASE64.decode(data) {
                Ok(bytes) => Some(bytes),
                Err(_) => {
                    fields.fail("data", "is not base64");
                    None
                }
            },
            Some(_) => {
                fields.fail("encoding", "must be one of utf8, base64");
                None
            }
        };
        fields.done();
        Some(Self { bytes: bytes?, close })
    }
}

/// A string that may contain any character, including NUL.
struct AnyText(String);

impl Read for AnyText {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self(text)),
            _ => at.fail("expected a string"),
        }
    }
}

/// Signals that a request may give by name, with or without `SIG`. Other signals are given by
/// number.
pub const SIGNALS: &[(&str, i32)] = &[
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("TSTP", 20),
    ("WINCH", 28),
];

pub struct SignalRequest {
    pub signal: i32,
}

impl Read for SignalRequest {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let mut fields = Fields::of(value, at)?;
        let signal = fields.required::<SignalName>("signal");
        fields.done();
        Some(Self { signal: signal?.0 })
    }
}

struct SignalName(i32);

impl Read for SignalName {
    fn read(value: Value, at: &mut FieldPath<'_>) -> Option<Self> {
        let number = match &value {
            Value::String(name) => {
                let name = name.strip_prefix("SIG").unwrap_or(name);
                SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
            }
            other => {
                other.as_i64().filter(|number| (1..=31).contains(number)).and_then(|number| number.try_into().ok())
            }
        };
        let names = SIGNALS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        number.map(Self).or_else(|| at.fail(format!("is no signal: a number from 1 to 31 or one of {names}")))
    }
}

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
    pub code: String,
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
    /// Reason why there is no result; `null` otherwise.
    #[schema(required = true)]
    pub error: Option<ExecFailure>,
}

/// Output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// Encoding of a chunk's bytes in `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    Utf8,
    Base64,
}

/// A range of chunks that the server no longer has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missed {
    pub from: u64,
    pub to: u64,
}

/// A chunk of output on a stream. Chunks are numbered from 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    pub seq: u64,
    pub stream: OutputStream,
    pub encoding: Encoding,
    pub data: String,
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
