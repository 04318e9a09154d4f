//! The messages: a closed list of all requests of the server and all responses of a box.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::guest_error::GuestError;
use super::port::ListeningPort;
use super::shell::{Left, ShellOrder, ShellResult, ShellState};
use crate::error::BoxError;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Number that the sender chooses. The replies carry it.
    pub id: u64,
    pub ask: Ask,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Ask {
    /// The first request. The response is `hello` as well.
    Hello {
        version: u32,
    },
    /// Starts a command. The body is its standard input if `input` is `bytes`. The response is
    /// `started`, or an error if the exec was not created.
    Exec(Box<ExecOrder>),
    /// Starts a command like `exec`. The only response is `finished`, when it has ended.
    Run {
        order: Box<ExecOrder>,
        then: AfterRun,
    },
    /// Responds with `finished` when the command has ended, or at once if it has.
    Wait {
        exec: String,
    },
    /// Responds with `output` for every chunk from number `from` on, then with `finished`.
    Attach {
        exec: String,
        from: u64,
    },
    /// Sends a signal to the command's process group.
    Signal {
        exec: String,
        signal: i32,
    },
    /// Kills every process of the exec. Responds with `finished` when none is left.
    Kill {
        exec: String,
    },
    Resize {
        exec: String,
        size: TerminalSize,
    },
    /// Writes the body to the command's standard input. Responds with `accepted` and the number of
    /// bytes.
    Input {
        exec: String,
        end: bool,
    },
    List,
    /// Adds environment variables for all commands. A box of the warm pool gets those of its
    /// session this way.
    Bind {
        env: BTreeMap<String, String>,
    },
    /// Drops the output of a finished exec and frees its id.
    Forget {
        exec: String,
    },
    /// Runs a command in a persistent shell. Responds with `shell` at its end.
    Shell(Box<ShellOrder>),
    /// Ends all shells whose state can be restored completely, and responds with `shell_states`.
    /// Ends none, and responds with an empty list, if anything else runs in the box.
    SuspendShells,
    /// Kills every process of every shell and discards the states.
    EndShells,
    /// Does the same for one shell.
    EndShell {
        shell: String,
    },
    /// Calls one of the agent's file tools. The body is its arguments.
    Tool(Box<ToolCall>),
    /// Reads or changes files without a tool. Requests that transfer bytes come with a file
    /// descriptor of the server.
    Files(Box<FileAsk>),
    /// Sends a piece of a file for the next request, if descriptors cannot be passed. Responds with
    /// `done`.
    Carry {
        at: u64,
    },
    /// Returns a piece of that file after the request. Responds with `piece`, which is empty at the
    /// end.
    Fetch {
        from: u64,
    },
    /// Lends the sockets of the box's network. The response is `done`, and comes with one
    /// descriptor for each. A box without a network responds with
    /// [`GuestErrorKind::NotFound`](super::GuestErrorKind::NotFound).
    Sockets,
    /// Connects to a port on the box's loopback. Responds with `connected` or `relayed`, and is the
    /// last request of its connection.
    Connect {
        port: u16,
    },
    /// Lists the ports that programs in the box listen on. Responds with `ports`.
    Ports,
    /// Ends the box. There is no response.
    Shutdown,
    /// Ends the box if it is idle: no running or remembered command, no other process, no request
    /// of another connection. Responds with `done` just before, or with
    /// [`GuestErrorKind::Busy`](super::GuestErrorKind::Busy).
    Rest,
    /// Closes all other connections if the box is idle, so that the caller has exclusive access.
    Alone,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecOrder {
    /// Id of the exec, unique in the box.
    pub exec: String,
    /// Program by name or path, and its arguments.
    pub argv: Vec<String>,
    /// Working directory, an absolute path.
    pub cwd: String,
    /// Environment variables in addition to the box's own.
    pub env: BTreeMap<String, String>,
    pub input: Input,
    pub timeout_ms: Option<u64>,
    /// Size of the terminal. With a terminal there is only one output stream, `stdout`.
    pub terminal: Option<TerminalSize>,
    pub output: OutputLimits,
}

/// Handling of a command's output after its result was sent.
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
    /// Standard input stays open for [`Ask::Input`].
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLimits {
    /// Maximum number of bytes of each stream in the result: half from the start, half from the
    /// end.
    pub kept_bytes: u64,
    /// Size of the ring buffer of both streams, for clients that attach late or again.
    pub ring_bytes: u64,
    pub unread: FullBuffer,
}

/// Handling of unread output when the ring buffer is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FullBuffer {
    /// The oldest output is dropped.
    Drop,
    /// The command blocks until a client reads.
    Wait,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { kept_bytes: 32 << 10, ring_bytes: 1 << 20, unread: FullBuffer::Drop }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    pub tool: String,
    /// In the body, as JSON.
    #[serde(skip)]
    pub arguments: Value,
    pub limits: stead_fs::Limits,
    pub now_millis: i64,
    /// Timeout in milliseconds, after which the call is killed and fails.
    pub timeout_ms: u64,
}

/// Requests for files of the workspace. Each is done completely or not at all, except `restore`,
/// which can be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum FileAsk {
    /// Lists a directory. Responds with `listing`.
    List {
        path: String,
    },
    /// Copies the file into the passed descriptor. Responds with `opened`.
    Open {
        path: String,
        most_bytes: u64,
    },
    /// Writes the tree below the path as a tar archive into the passed descriptor.
    Export {
        path: String,
        most_bytes: u64,
    },
    /// Writes the content of the passed descriptor to the path. Responds with `placed`.
    Put {
        path: String,
        if_match: Option<String>,
        existing: IfThere,
        parents: IfMissing,
    },
    /// Writes all of these files or none. The passed descriptor contains their bytes in order.
    /// Responds with `done` or `unplaced`.
    PutAll {
        files: Vec<NewContent>,
    },
    /// Unpacks the passed descriptor, a tar, tar.gz, tar.zst or zip archive. Only adds files.
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
    /// Replaces the workspace with the content of the passed tar archive.
    Restore,
    /// Writes the working tree as a tar archive into the passed descriptor: see
    /// [`stead_fs::archive::export_working_tree`]. Fails with `too_large` if it exceeds the room.
    ExportWorkingTree {
        most_entries: u64,
        most_bytes: u64,
    },
    /// Restores the working tree from the passed tar archive: see
    /// [`stead_fs::DiskFs::restore_working_tree`].
    RestoreWorkingTree,
    /// Compares the workspace with the content of the passed tar archive. Responds with `patch`.
    Diff {
        #[serde(flatten)]
        options: stead_fs::patch::Options,
    },
    /// Compares the workspace with the trees that the box was configured with. Writes the patch
    /// into the passed descriptor, because it can exceed a frame. Responds with `done`.
    CompareInto {
        #[serde(flatten)]
        options: stead_fs::patch::Options,
        most_filled: u64,
    },
    /// Responds with `stamp`: see [`stead_fs::DiskFs::stamp`].
    Stamp,
    /// Does the same for the upper directory alone. Responds with `stamp`.
    StampWritten,
    /// Responds with `tree_hash`: the hash of the workspace, if it has at most this many entries
    /// and bytes.
    TreeHash {
        most_entries: u64,
        most_bytes: u64,
    },
    /// Lists the upper directory. A whiteout is listed as `special`. Responds with `listing`.
    Touched {
        most: u64,
    },
}

/// New content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewContent {
    pub path: String,
    pub bytes: u64,
    /// Hash of the file to replace; `None` if the file must not exist.
    pub replaces: Option<String>,
}

impl FileAsk {
    /// Returns true if the request needs a file descriptor.
    pub fn takes_file(&self) -> bool {
        !matches!(
            self,
            Self::List { .. }
                | Self::MakeDirectory { .. }
                | Self::Delete { .. }
                | Self::Stamp
                | Self::StampWritten
                | Self::TreeHash { .. }
                | Self::Touched { .. }
        )
    }

    /// Returns the maximum number of bytes that the request writes to the passed descriptor,
    /// including tar headers; `None` if it writes none.
    pub fn most_filled(&self) -> Option<u64> {
        match self {
            Self::Open { most_bytes, .. } => Some(*most_bytes),
            Self::Export { most_bytes, .. } => Some(most_bytes.saturating_mul(2)),
            Self::CompareInto { most_filled, .. } => Some(*most_filled),
            Self::ExportWorkingTree { most_entries, most_bytes } => {
                Some(most_bytes.saturating_mul(2).saturating_add(most_entries.saturating_mul(MEMBER_BYTES)))
            }
            _ => None,
        }
    }

    pub fn changes_files(&self) -> bool {
        !matches!(
            self,
            Self::List { .. }
                | Self::Open { .. }
                | Self::Export { .. }
                | Self::Diff { .. }
                | Self::CompareInto { .. }
                | Self::ExportWorkingTree { .. }
                | Self::Stamp
                | Self::StampWritten
                | Self::TreeHash { .. }
                | Self::Touched { .. }
        )
    }
}

/// Bytes of a tar member in addition to its content: the headers of a long name, and the padding.
const MEMBER_BYTES: u64 = 8192;

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

/// [`stead_fs::Stat`] in the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStat {
    pub kind: stead_fs::Kind,
    pub size: u64,
    pub permission: stead_fs::Permission,
    pub mode: u32,
    pub created_at_millis: Option<i64>,
    pub updated_at_millis: i64,
}

impl From<stead_fs::Stat> for FileStat {
    fn from(stat: stead_fs::Stat) -> Self {
        let stead_fs::Stat { kind, size, permission, mode, version: _, created_at_millis, updated_at_millis } = stat;
        Self { kind, size, permission, mode, created_at_millis, updated_at_millis }
    }
}

impl From<FileStat> for stead_fs::Stat {
    fn from(stat: FileStat) -> Self {
        let FileStat { kind, size, permission, mode, created_at_millis, updated_at_millis } = stat;
        Self { kind, size, permission, mode, version: None, created_at_millis, updated_at_millis }
    }
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
    /// The body is the chunk. `number` counts chunks from 0. A gap means that the chunks in between
    /// are no longer kept.
    Output {
        stream: Stream,
        number: u64,
    },
    /// The body is the kept output: see [`ExecResult`].
    Finished(ExecResult),
    Accepted {
        bytes: u64,
    },
    /// The body is the kept output: see [`ShellResult`].
    Shell(Box<ShellResult>),
    /// The body contains the states one after the other.
    ShellStates {
        shells: Vec<ShellState>,
    },
    Done,
    Execs {
        execs: Vec<ExecStatus>,
        /// Number of processes in the box, without init and its own jobs.
        processes: u64,
    },
    /// The body is the result, or empty.
    Tool(ToolReply),
    /// The body contains the entries, as a JSON array of path and [`FileStat`].
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
    /// No file was written, because this one failed.
    Unplaced {
        path: String,
        #[serde(flatten)]
        error: GuestError,
    },
    /// The body is a [`stead_fs::patch::Patch`] as JSON.
    Patch,
    /// The body is the piece.
    Piece,
    /// The connected socket comes with this response as a descriptor.
    Connected,
    /// Descriptors cannot be passed. From now on the connection carries the bytes of the port.
    Relayed,
    Ports {
        ports: Vec<ListeningPort>,
    },
    Stamp {
        stamp: Option<String>,
    },
    /// `None` if the tree is too large.
    TreeHash {
        hash: Option<String>,
    },
    Failed(GuestError),
}

impl Answer {
    /// Converts a failure into an error.
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

/// Result of a command. The body of the frame contains the head and tail of stdout, then those of
/// stderr.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecResult {
    /// Exit code: 128 plus the signal if a signal ended the command, 124 after a timeout.
    pub exit_code: i32,
    pub signal: Option<i32>,
    pub timed_out: bool,
    /// True if [`Ask::Kill`] ended the command.
    pub killed: bool,
    /// True if a process of the box was killed during the command, by the kernel for lack of memory
    /// or by init because of too many sockets.
    pub oom: bool,
    pub duration_ms: u64,
    pub stdout: Kept,
    pub stderr: Kept,
    /// Number of output chunks until then.
    pub chunks: u64,
    /// Number of processes that could not be killed. It is only above 0 if the kernel does not
    /// respond.
    pub survivors: u64,
    /// Processes that the command left running.
    pub left: Left,
}

/// Total size of a stream, and the sizes of its parts in the body.
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
    /// Number of output chunks so far.
    pub chunks: u64,
}

/// Result of a file tool. Exactly one of `result` and `code` is present.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReply {
    /// In the body, as JSON.
    #[serde(skip)]
    pub result: Option<Value>,
    pub code: Option<String>,
    pub hint: Option<String>,
    pub message: String,
}
