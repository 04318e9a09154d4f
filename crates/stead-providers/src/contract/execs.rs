//! The contract of execs: commands in a box whose output can be followed, and which accept input
//! and signals and can be killed.

use async_trait::async_trait;
use stead_core::ExecId;
use stead_core::exec::{ExecFailureCode, ExecOrder, ExecOutput, Exit, TerminalSize};

/// The end of a command, with the first and last part of its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecEnd {
    pub exit: Exit,
    pub output: ExecOutput,
}

/// Errors of exec operations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    #[error("this provider's workspaces have no box to run commands in")]
    Unsupported,
    #[error("the box does not know the exec {exec}")]
    Unknown { exec: ExecId },
    #[error("the command has ended")]
    Ended,
    #[error("the exec has no terminal")]
    NoTerminal,
    #[error("{signal} is not a signal")]
    NoSignal { signal: i32 },
    /// The command could not be started.
    #[error("{message}")]
    Refused { code: ExecFailureCode, message: String },
    /// The box no longer answers.
    #[error("the box is gone: {reason}")]
    Lost { reason: String },
}

/// An output stream of a command. A command with a terminal has only `Stdout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// An item of a followed command's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// Chunk `seq`, counted from 1. A gap in the numbers means that the box has discarded the
    /// output.
    Output { seq: u64, stream: OutputStream, bytes: Vec<u8> },
    /// The last item, after every chunk.
    Ended,
}

/// A stream of a command's output.
#[async_trait]
pub trait Following: Send + Sync {
    async fn next(&mut self) -> Result<Followed, ExecError>;
}

/// Tells whether more input follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputEnd {
    More,
    Last,
}

/// The state of an exec in the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownExec {
    pub exec: ExecId,
    pub running: bool,
    pub chunks: u64,
}

/// The activity in a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtWork {
    pub execs: Vec<KnownExec>,
    /// Number of all processes in the box, including those that no exec started.
    pub processes: u64,
}

/// Commands in a box. They outlive the server: after a restart the server uses the same ids again.
#[async_trait]
pub trait Execs: Send + Sync {
    /// Starts a command.
    ///
    /// Promises: on `Ok` the command runs under its id and its output chunks are numbered from 1;
    /// on `Err` no process of it runs.
    async fn start(&self, exec: ExecId, order: ExecOrder, output_bytes: u64) -> Result<(), ExecError>;

    /// Starts a command and waits for its end.
    async fn run(&self, exec: ExecId, order: ExecOrder, output_bytes: u64) -> Result<ExecEnd, ExecError>;

    /// Waits for a command's end. May be called any number of times.
    ///
    /// Promises: returns at process exit, not when the last pipe closes; after a timeout or a kill
    /// no process of the command is alive.
    async fn wait(&self, exec: ExecId) -> Result<ExecEnd, ExecError>;

    /// Follows a command's output, beginning with the chunk after `after`.
    ///
    /// Promises: no chunk comes twice, and only chunks that the box has discarded are missing. A
    /// slow reader delays only itself, unless the command was started to wait for its reader.
    async fn follow(&self, exec: ExecId, after: u64) -> Result<Box<dyn Following>, ExecError>;

    /// Sends bytes to a command's standard input; returns when the box has taken all of them.
    async fn feed(&self, exec: ExecId, bytes: &[u8], end: InputEnd) -> Result<(), ExecError>;

    /// Sends a signal to the command's process group.
    async fn signal(&self, exec: ExecId, signal: i32) -> Result<(), ExecError>;

    async fn resize(&self, exec: ExecId, size: TerminalSize) -> Result<(), ExecError>;

    /// Kills every process of a command, including those that outlive it; returns when none is
    /// left.
    async fn kill(&self, exec: ExecId) -> Result<(), ExecError>;

    async fn at_work(&self) -> Result<AtWork, ExecError>;

    /// Returns true if this server had to restart the box when it adopted it. All earlier processes
    /// are gone then.
    fn started_anew(&self) -> bool;
}
