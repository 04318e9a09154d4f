//! Execs: commands that somebody starts in a box, and may follow, feed, signal and end.
//!
//! What the journal keeps of one is [`ExecSpec`], [`Exit`] and the ends of its output. What it never keeps: the values of variables and what goes
//! to standard input, because that is where secrets travel. So an exec whose start was interrupted is not started again.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::event::Failure;
use crate::parse::words;
use crate::{ExecId, Timestamp};

/// Of the program and its arguments together: they are in the journal and in the state.
pub const MAX_ARGV_BYTES: usize = 32 << 10;
/// Execs that have ended and are still listed. Older ones are in the journal alone.
const REMEMBERED: usize = 100;

/// A command, as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecSpec {
    /// As it was written, where a shell reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    pub argv: Vec<String>,
    pub cwd: String,
    /// The names of the variables that were given; never their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// How much was given to read at the start; never what.
    #[serde(default)]
    pub stdin_bytes: u64,
    pub stdin: Stdin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    pub background: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<TerminalSize>,
    pub unread: Unread,
}

impl ExecSpec {
    pub fn argv_bytes(&self) -> usize {
        self.argv.iter().map(|word| word.len() + 1).sum()
    }
}

words!(
    /// What a command finds on its standard input.
    Stdin, "stdin", {
        /// What was given at the start, and then its end; without anything given, the end at once.
        Closed = "closed",
        /// More may come.
        Open = "open",
    }
);

words!(
    /// What becomes of output that nobody has read yet when there is too much of it.
    Unread, "unread", {
        /// The oldest goes, and a reader is told how much it missed.
        Drop = "drop",
        /// The command waits, as it would before a full pipe.
        Wait = "wait",
    }
);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub rows: u16,
    pub columns: u16,
}

/// Everything that is needed to start a command, with what the journal does not keep.
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

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// 128 and the signal if one ended it; 124 on timeout.
    pub exit_code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    pub timed_out: bool,
    /// Somebody asked for its end.
    pub killed: bool,
    pub oom: bool,
    pub duration_ms: u64,
    pub stdout_total: u64,
    pub stderr_total: u64,
    pub truncated: bool,
    /// How many chunks of output there were.
    pub chunks: u64,
}

/// The ends of a command's output.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExecOutput {
    pub stdout: String,
    pub stderr: String,
}

words!(
    ExecStatus, "exec status", {
        Running = "running",
        Finished = "finished",
        /// It could not be started.
        Failed = "failed",
        /// Nobody knows how it ended: its box or its session ended first.
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
    /// The event that tells of its end; a finished one's has the output.
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

/// The execs of a session: all that run, and the latest of those that have ended.
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
        let exec = Exec { spec, status, started_at: at, ended_at: None, ended_seq: None, exit: None, failure: None };
        self.0.insert(id, exec);
    }

    pub(crate) fn end(&mut self, id: ExecId, seq: u64, at: Timestamp, end: End) {
        let Some(exec) = self.0.get_mut(&id) else { return };
        (exec.ended_at, exec.ended_seq) = (Some(at), Some(seq));
        (exec.status, exec.exit, exec.failure) = match end {
            End::Finished(exit) => (ExecStatus::Finished, Some(exit), None),
            End::Failed(failure) => (ExecStatus::Failed, None, Some(failure)),
            End::Interrupted(reason) => (ExecStatus::Interrupted, None, Some(Failure::new("interrupted", reason))),
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
