//! The messages: a closed list of everything the server may ask of a box, and everything a box may answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::guest_error::GuestError;
use crate::error::BoxError;

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
    /// Starts a command as `exec` does; answered once, with `finished` when it has ended.
    Run {
        order: Box<ExecOrder>,
        then: AfterRun,
    },
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
    /// Adds to what every command finds in its environment: a box that was kept ready learns whose it is.
    Bind {
        env: BTreeMap<String, String>,
    },
    /// Drops a finished exec's output and frees its id.
    Forget {
        exec: String,
    },
    /// One of the agent's file tools.
    Tool(Box<ToolCall>),
    /// A change or a look by other means than a tool. Those that move bytes come with a file of the server's, by descriptor.
    Files(Box<FileAsk>),
    /// A piece of a file for the next request that takes one, where files cannot be sent by descriptor; answered with `done`.
    Carry {
        at: u64,
    },
    /// A piece of that file as the request left it; answered with `piece`, empty at its end.
    Fetch {
        from: u64,
    },
    /// Ends everything in the box, init last. Not answered.
    Shutdown,
    /// Ends the box if nothing would be lost by it: no command, running or remembered, no other process, nothing asked by others. Answered
    /// with `done` just before, or with [`GuestErrorKind::Busy`](super::GuestErrorKind::Busy).
    Rest,
    /// Hangs up on everybody else, if nothing would be lost by it: whoever asks is alone with the box then.
    Alone,
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

/// What becomes of a command's output when its result has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AfterRun {
    Keep,
    Forget,
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
    pub unread: Unread,
}

/// What becomes of output that nobody has read when the ring is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unread {
    /// The oldest goes.
    Drop,
    /// The command waits until somebody reads.
    Wait,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { kept_bytes: 32 << 10, ring_bytes: 1 << 20, unread: Unread::Drop }
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

/// Paths are the workspace's. Each is done completely or not at all, but for `restore`, which can be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FileAsk {
    /// Answered with `listing`.
    List {
        path: String,
    },
    /// Copies the file into the one that comes with it; answered with `opened`.
    Open {
        path: String,
        most_bytes: u64,
    },
    /// Writes the tree below the path as tar into the file that comes with it.
    Export {
        path: String,
        most_bytes: u64,
    },
    /// The file that comes with it is the content; answered with `placed`.
    Put {
        path: String,
        if_match: Option<String>,
        existing: IfThere,
        parents: IfMissing,
    },
    /// All of these or none; the file that comes with it holds their bytes, one after the other. Answered with `done`, or with `unplaced`.
    PutAll {
        files: Vec<NewContent>,
    },
    /// The file that comes with it is a tar, tar.gz, tar.zst or zip. Only adds.
    Unpack {
        path: String,
    },
    MakeDirectory {
        path: String,
    },
    Delete {
        path: String,
        if_match: Option<String>,
    },
    /// Makes the workspace what the tar that comes with it holds.
    Restore,
    /// What has changed since the workspace was what the tar that comes with it holds; answered with `patch`.
    Diff,
    /// What has changed since the workspace was the trees the box was told to compare with; answered with `patch`.
    Compare,
    /// Answered with `stamp`: see [`stead_fs::DiskFs::stamp`].
    Stamp,
    /// The same of what was written over the layers below, and of nothing else; answered with `stamp`.
    StampWritten,
    /// What was written over the layers below, a file that is gone as `special`; answered with `listing`.
    Touched {
        most: u64,
    },
}

/// What a file is to hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewContent {
    pub path: String,
    pub bytes: u64,
    /// The hash of what it replaces; none where there must be nothing.
    pub replaces: Option<String>,
}

impl FileAsk {
    /// Whether a file must come with it.
    pub fn takes_file(&self) -> bool {
        !matches!(
            self,
            Self::List { .. }
                | Self::MakeDirectory { .. }
                | Self::Delete { .. }
                | Self::Compare
                | Self::Stamp
                | Self::StampWritten
                | Self::Touched { .. }
        )
    }

    /// If the file that comes with it is to be written: how many bytes at most, the names and headers of a tar included.
    pub fn most_filled(&self) -> Option<u64> {
        match self {
            Self::Open { most_bytes, .. } => Some(*most_bytes),
            Self::Export { most_bytes, .. } => Some(most_bytes.saturating_mul(2)),
            _ => None,
        }
    }

    pub fn changes_files(&self) -> bool {
        !matches!(
            self,
            Self::List { .. }
                | Self::Open { .. }
                | Self::Export { .. }
                | Self::Diff
                | Self::Compare
                | Self::Stamp
                | Self::StampWritten
                | Self::Touched { .. }
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfThere {
    Replace,
    Refuse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfMissing {
    Make,
    Refuse,
}

/// [`stead_fs::Stat`] on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStat {
    pub kind: stead_fs::Kind,
    pub size: u64,
    pub permission: stead_fs::Permission,
    pub created_at_millis: Option<i64>,
    pub updated_at_millis: i64,
}

impl From<stead_fs::Stat> for FileStat {
    fn from(stat: stead_fs::Stat) -> Self {
        let stead_fs::Stat { kind, size, permission, version: _, created_at_millis, updated_at_millis } = stat;
        Self { kind, size, permission, created_at_millis, updated_at_millis }
    }
}

impl From<FileStat> for stead_fs::Stat {
    fn from(stat: FileStat) -> Self {
        let FileStat { kind, size, permission, created_at_millis, updated_at_millis } = stat;
        Self { kind, size, permission, version: None, created_at_millis, updated_at_millis }
    }
}

/// The body of `patch`, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchText {
    pub text: String,
    pub changed: Vec<stead_fs::WorkspacePath>,
    pub unshown: Vec<stead_fs::WorkspacePath>,
    /// Not told by boxes that were started before it was.
    #[serde(default)]
    pub contents: std::collections::BTreeMap<stead_fs::WorkspacePath, stead_fs::patch::Contents>,
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
        /// In the box, beside init and what it does for the server.
        processes: u64,
    },
    Tool(ToolReply),
    /// The body is the entries, as a JSON array of path and [`FileStat`].
    Listing {
        total: u64,
    },
    Opened {
        stat: FileStat,
        hash: String,
    },
    Placed {
        existed: bool,
    },
    /// Nothing was placed, because of this one.
    Unplaced {
        path: String,
        #[serde(flatten)]
        error: GuestError,
    },
    /// The body is a [`PatchText`].
    Patch,
    /// The body is the piece.
    Piece,
    Stamp {
        stamp: Option<String>,
    },
    Failed(GuestError),
}

impl Answer {
    /// Makes an error of a refusal.
    pub fn or_refusal(self) -> Result<Self, BoxError> {
        match self {
            Self::Failed(error) => Err(BoxError::Guest(error)),
            answer => Ok(answer),
        }
    }
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
    /// Chunks of output until then.
    pub chunks: u64,
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
