//! The contract of execs: commands in a box that can be followed, fed, signalled and ended.

use async_trait::async_trait;
use stead_core::ExecId;
use stead_core::exec::{ExecOrder, ExecOutput, Exit, TerminalSize};

/// How a command ended, with the ends of its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecEnd {
    pub exit: Exit,
    pub output: ExecOutput,
}

/// Why something could not be done with a command.
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
    Refused { code: &'static str, message: String },
    /// The box does not answer any more.
    #[error("the box is gone: {reason}")]
    Lost { reason: String },
}

/// Which of a command's streams. With a terminal there is one, `Stdout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    Stdout,
    Stderr,
}

/// What comes of following a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// Chunk `seq`, counted from 1. A gap in the numbers is output that is no longer kept.
    Output { seq: u64, stream: OutputStream, bytes: Vec<u8> },
    /// The last, after every chunk.
    Ended,
}

/// A command's output, as it comes.
#[async_trait]
pub trait Following: Send + Sync {
    async fn next(&mut self) -> Result<Followed, ExecError>;
}

/// Whether more input is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputEnd {
    More,
    Last,
}

/// An exec that the box knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownExec {
    pub exec: ExecId,
    pub running: bool,
    pub chunks: u64,
}

/// What is at work in a box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtWork {
    pub execs: Vec<KnownExec>,
    /// Every process of the box, whoever started it.
    pub processes: u64,
}

/// Commands in a box. They outlive the server: after a restart the same ids are asked for again.
#[async_trait]
pub trait Execs: Send + Sync {
    /// Starts a command.
    ///
    /// Promises: on `Ok` it runs under its id and whatever it writes is numbered from 1; on `Err` nothing of it runs.
    async fn start(&self, exec: ExecId, order: ExecOrder, output_bytes: u64) -> Result<(), ExecError>;

    /// Starts a command and waits for its end.
    async fn run(&self, exec: ExecId, order: ExecOrder, output_bytes: u64) -> Result<ExecEnd, ExecError>;

    /// Waits for a command's end, however often it is asked.
    ///
    /// Promises: answers at process exit, not when the last pipe is closed; after a timeout or a kill no process of it is alive.
    async fn wait(&self, exec: ExecId) -> Result<ExecEnd, ExecError>;

    /// Follows a command's output from the chunk after `after` on.
    ///
    /// Promises: no chunk twice, none left out but those that are no longer kept. A reader that is slow holds up nobody but itself,
    /// unless the command was started to wait for it.
    async fn follow(&self, exec: ExecId, after: u64) -> Result<Box<dyn Following>, ExecError>;

    /// Gives bytes to a command's standard input; returns when all are on their way.
    async fn feed(&self, exec: ExecId, bytes: &[u8], end: InputEnd) -> Result<(), ExecError>;

    /// Sends a signal to the command's process group.
    async fn signal(&self, exec: ExecId, signal: i32) -> Result<(), ExecError>;

    async fn resize(&self, exec: ExecId, size: TerminalSize) -> Result<(), ExecError>;

    /// Ends every process of a command, also those it left behind when it ended; returns when none is left.
    async fn kill(&self, exec: ExecId) -> Result<(), ExecError>;

    async fn at_work(&self) -> Result<AtWork, ExecError>;

    /// Whether the box had to be started anew when this server took it up: whatever ran in it before is gone.
    fn started_anew(&self) -> bool;
}
