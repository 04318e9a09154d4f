//! Execs: commands that a client starts in a box and may follow, feed, signal and end.
//!
//! The journal keeps [`ExecSpec`], [`Exit`] and the head and tail of each output stream. It never
//! keeps the values of environment variables or the bytes of standard input, because those may be
//! secrets. For this reason an exec whose start was interrupted cannot be started again.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::config::CallLimits;
use crate::env::Env;
use crate::event::Failure;
use crate::parse::words;
use crate::{ExecId, Timestamp};

/// Maximum size of the program and its arguments together, if the limit of the session's commands
/// is lower.
const MAX_ARGV_BYTES: u64 = 32 << 10;
/// Room for the words around a command: the shell and its option.
const SHELL_BYTES: u64 = 64;
/// Number of bytes of a long command that the state keeps. The journal has it whole.
const STATE_BYTES: usize = 4 << 10;
/// Number of ended execs that the state still lists. Older ones are only in the journal.
const REMEMBERED: usize = 100;

/// A command as recorded in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecSpec {
    /// The command line as the client wrote it, if a shell interprets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    pub argv: Vec<String>,
    pub cwd: String,
    /// Names of the variables in the request. Values are never recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Number of bytes of initial standard input. The bytes are never recorded.
    #[serde(default)]
    pub stdin_bytes: u64,
    pub stdin: Stdin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    pub background: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<TerminalSize>,
    pub unread: FullBuffer,
}

impl ExecSpec {
    pub fn argv_bytes(&self) -> u64 {
        self.argv.iter().map(|word| word.len() as u64 + 1).sum()
    }

    /// Returns the maximum size of the program and its arguments for a session with these limits.
    pub fn most_argv_bytes(limits: &CallLimits) -> u64 {
        MAX_ARGV_BYTES.max(limits.command_bytes.saturating_add(SHELL_BYTES))
    }

    /// Returns the command for the state, which keeps many of them: long words of a large command
    /// are cut.
    pub(super) fn for_state(self) -> Self {
        if self.argv_bytes() <= MAX_ARGV_BYTES {
            return self;
        }
        let cut = |mut word: String| {
            if word.len() > STATE_BYTES {
                word.truncate(word.floor_char_boundary(STATE_BYTES));
                word.push('…');
            }
            word
        };
        Self { command: self.command.map(cut), argv: self.argv.into_iter().map(cut).collect(), ..self }
    }
}

words!(
    /// The state of a command's standard input.
    Stdin, "stdin", {
        /// The command reads the initial input and then end of file. Without initial input it reads
        /// end of file at once.
        Closed = "closed",
        /// The client may send more input.
        Open = "open",
    }
);

words!(
    /// The treatment of output that exceeds the buffer before a client reads it.
    FullBuffer, "unread", {
        /// The oldest output is dropped, and the reader learns which chunks it missed.
        Drop = "drop",
        /// The command blocks, as on a full pipe.
        Wait = "wait",
    }
);

words!(
    /// The reason why an exec has no result.
    ExecFailureCode, "exec failure code", {
        /// The working directory does not exist or cannot be entered.
        InvalidCwd = "invalid_cwd",
        /// The program cannot be executed.
        CannotExecute = "cannot_execute",
        /// The limit of processes, open files or execs is reached.
        ResourceExhausted = "resource_exhausted",
        /// The box has no room for the command's input.
        NoSpace = "no_space",
        /// The box refused the command for another reason.
        Refused = "refused",
        /// The box or the session ended before the command did.
        Interrupted = "interrupted",
        /// A failure of the server.
        Internal = "internal",
    }
);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

/// Everything needed to start a command, including the parts that the journal does not keep.
#[derive(Clone, PartialEq, Eq)]
pub struct ExecOrder {
    pub spec: ExecSpec,
    pub env: Env,
    pub stdin: Vec<u8>,
}

impl fmt::Debug for ExecOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecOrder").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// The result of a command that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// 128 plus the signal number if a signal ended it, 124 after a timeout.
    pub exit_code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub timed_out: bool,
    /// True if a client asked to end the command.
    pub killed: bool,
    pub oom: bool,
    pub duration_ms: u64,
    pub stdout_total: u64,
    pub stderr_total: u64,
    pub truncated: bool,
    /// Number of output chunks.
    pub chunks: u64,
}

/// The head and the tail of each output stream.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExecOutput {
    pub stdout: String,
    pub stderr: String,
}

words!(
    ExecStatus, "exec status", {
        Running = "running",
        Finished = "finished",
        /// The command could not be started.
        Failed = "failed",
        /// The exit status is unknown because the box or the session ended first.
        Interrupted = "interrupted",
    }
);

/// An exec in the state of its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    pub spec: ExecSpec,
    pub status: ExecStatus,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The event that recorded the end. If the exec finished, that event contains the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Exec {
    pub fn running(&self) -> bool {
        self.status == ExecStatus::Running
    }
}

/// The execs of a session: all running ones, and the latest ended ones.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Execs(BTreeMap<ExecId, Exec>);

impl Execs {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, exec: ExecId) -> Option<&Exec> {
        self.0.get(&exec)
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (ExecId, &Exec)> {
        self.0.iter().map(|(id, exec)| (*id, exec))
    }

    pub fn running(&self) -> impl Iterator<Item = ExecId> {
        self.iter().filter(|(_, exec)| exec.running()).map(|(id, _)| id)
    }

    pub fn runs(&self, exec: ExecId) -> bool {
        self.get(exec).is_some_and(Exec::running)
    }

    pub(crate) fn start(&mut self, id: ExecId, spec: ExecSpec, at: Timestamp) {
        let status = ExecStatus::Running;
        let exec = Exec {
            spec: spec.for_state(),
            status,
            started_at: at,
            ended_at: None,
            ended_seq: None,
            exit: None,
            failure: None,
        };
        self.0.insert(id, exec);
    }

    pub(crate) fn end(&mut self, id: ExecId, seq: u64, at: Timestamp, end: End) {
        let Some(exec) = self.0.get_mut(&id) else { return };
        (exec.ended_at, exec.ended_seq) = (Some(at), Some(seq));
        (exec.status, exec.exit, exec.failure) = match end {
            End::Finished(exit) => (ExecStatus::Finished, Some(exit), None),
            End::Failed(failure) => (ExecStatus::Failed, None, Some(failure)),
            End::Interrupted(reason) => {
                (ExecStatus::Interrupted, None, Some(Failure::new(ExecFailureCode::Interrupted.as_str(), reason)))
            }
        };
        let mut ended: Vec<ExecId> = self.iter().filter(|(_, exec)| !exec.running()).map(|(id, _)| id).collect();
        ended.truncate(ended.len().saturating_sub(REMEMBERED));
        for id in ended {
            self.0.remove(&id);
        }
    }
}

pub(crate) enum End {
    Finished(Exit),
    Failed(Failure),
    Interrupted(String),
}
