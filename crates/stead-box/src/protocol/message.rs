//! The messages: a closed list of everything the server may ask of a box, and everything a box may answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Of the sender's choosing; the answers carry it.
    pub id: u64,
    pub ask: Ask,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Ask {
    /// First, and answered with the same.
    Hello {
        version: u32,
    },
    /// Starts a command. The body is what it reads if `input` is `bytes`. Answered with `started`, or the exec is not there.
    Exec(Box<ExecOrder>),
    /// Answered with `finished` once the command has ended, at once if it has.
    Wait {
        exec: String,
    },
    /// Answered with `output` for every chunk from number `from` on, then with `finished`.
    Attach {
        exec: String,
        from: u64,
    },
    /// To the command's process group.
    Signal {
        exec: String,
        signal: i32,
    },
    /// Ends every process of the exec; answered with `finished` when none is left.
    Kill {
        exec: String,
    },
    Resize {
        exec: String,
        size: TerminalSize,
    },
    /// The body goes to the command's standard input; answered with `accepted`, of how many bytes.
    Input {
        exec: String,
        end: bool,
    },
    List,
    /// Drops a finished exec's output and frees its id.
    Forget {
        exec: String,
    },
    /// One of the agent's file tools.
    Tool(Box<ToolCall>),
    /// Answered with `content`: at most 1 MiB of the file from `offset` on.
    ReadFile {
        path: String,
        offset: u64,
    },
    /// The body is what to write.
    WriteFile {
        path: String,
        kind: WriteKind,
    },
    /// Ends everything in the box, init last. Not answered.
    Shutdown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecOrder {
    /// Stable for the life of the box.
    pub exec: String,
    /// The program by name or path, and its arguments.
    pub argv: Vec<String>,
    /// Absolute.
    pub cwd: String,
    /// Beside what the box was started with.
    pub env: BTreeMap<String, String>,
    pub input: Input,
    pub timeout_ms: Option<u64>,
    /// With a terminal there is one stream, `stdout`.
    pub terminal: Option<TerminalSize>,
    pub output: OutputLimits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    Nothing,
    Bytes,
    /// Stays open for [`Ask::Input`].
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLimits {
    /// Of each stream, for the result: half from the start, half from the end.
    pub kept_bytes: u64,
    /// Of both streams together, for those who attach late or again.
    pub ring_bytes: u64,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { kept_bytes: 32 << 10, ring_bytes: 1 << 20 }
    }
}

/// The limits of [`stead_fs::Limits`] that an agent type may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolLimits {
    pub write_chars: u64,
    pub path_depth: u64,
    pub segment_chars: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    pub tool: String,
    pub arguments: Value,
    pub limits: ToolLimits,
    pub now_millis: i64,
    /// After this long the call is ended and fails.
    pub timeout_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteKind {
    Create,
    Overwrite,
    Append,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub id: u64,
    pub answer: Answer,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Answer {
    Hello {
        version: u32,
    },
    Started,
    /// The body is the chunk. `number` counts chunks from 0; a number above the one expected means that the ones between are no longer kept.
    Output {
        stream: Stream,
        number: u64,
    },
    /// The body is what was kept: see [`ExecResult`].
    Finished(ExecResult),
    Accepted {
        bytes: u64,
    },
    Done,
    Execs {
        execs: Vec<ExecStatus>,
    },
    Tool(ToolReply),
    /// The body is the content; `size` is the file's.
    Content {
        size: u64,
    },
    Failed {
        code: String,
        message: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    Stdout,
    Stderr,
}

/// How a command ended. The body of the frame holds stdout's head and tail, then stderr's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecResult {
    /// 128 + the signal if one ended it; 124 on timeout.
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub timed_out: bool,
    /// Ended by [`Ask::Kill`].
    pub killed: bool,
    /// The kernel ended a process of the box for want of memory while this ran.
    pub oom: bool,
    pub duration_ms: u64,
    pub stdout: Kept,
    pub stderr: Kept,
    /// Processes that could not be ended. Anything but 0 is a kernel that does not obey.
    pub survivors: u64,
}

/// How much of a stream there was, and how much of it is in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    pub total: u64,
    pub head: u64,
    pub tail: u64,
}

impl Kept {
    pub fn truncated(&self) -> bool {
        self.head + self.tail < self.total
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecStatus {
    pub exec: String,
    pub running: bool,
    pub exit_code: Option<i32>,
    /// Chunks of output so far.
    pub chunks: u64,
}

/// What a file tool gave: exactly one of `result` and `code` is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReply {
    pub result: Option<Value>,
    pub code: Option<String>,
    pub hint: Option<String>,
    pub message: String,
}
