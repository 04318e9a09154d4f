//! Messages about persistent shells and about processes that commands leave running.

use serde::{Deserialize, Serialize};

use super::message::{Kept, OutputLimits};

/// One command for a persistent shell. The body is the state to restore if the box has no shell of
/// this name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellOrder {
    /// Name of the shell, unique in the box.
    pub shell: String,
    /// Name of this call, for [`Ask::Kill`](super::Ask::Kill).
    pub call: String,
    /// Command to run; `None` only makes sure that a shell runs.
    pub command: Option<String>,
    pub begin: ShellBegin,
    /// Working directory of a new shell.
    pub cwd: String,
    pub timeout_ms: u64,
    pub output: OutputLimits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellBegin {
    /// Use the running shell, or start one.
    Continue,
    /// Kill every process of the running shell first, and discard its state.
    Restart,
}

/// Origin of the shell that ran a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellOrigin {
    /// The shell was running before the call.
    Running,
    /// The shell was started for the call, with the state of its predecessor.
    Restored,
    /// The shell was started for the call, without any state.
    New,
}

/// Result of a command in a shell. The body of the frame is as of an
/// [`ExecResult`](super::ExecResult).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellResult {
    pub origin: ShellOrigin,
    /// Exit code of the command, or of the shell if that ended; 124 after a timeout.
    pub exit_code: i32,
    pub timed_out: bool,
    pub killed: bool,
    pub oom: bool,
    /// True if the shell ended during the command.
    pub ended: bool,
    /// True if a later command finds the variables, functions and the directory of this shell.
    pub state_kept: bool,
    /// Working directory after the command; `None` if the command did not end by itself.
    pub cwd: Option<String>,
    pub duration_ms: u64,
    pub stdout: Kept,
    pub stderr: Kept,
    pub left: Left,
}

/// Processes of a command that still run after its end.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Left {
    pub total: u64,
    /// The first of them.
    pub processes: Vec<LeftProcess>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftProcess {
    /// Process id inside the box.
    pub pid: i32,
    /// Start of the command line, from the process itself.
    pub command: String,
}

/// Size of one shell's state in the body of `shell_states`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellState {
    pub shell: String,
    pub bytes: u64,
}
