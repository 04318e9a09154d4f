//! Setup commands in the journal: their output and their results.

use serde::{Deserialize, Serialize};

use crate::parse::words;

words!(
    /// An output stream of a setup command.
    SetupStream, "stream", {
        Stdout = "stdout",
        Stderr = "stderr",
    }
);

/// A piece of the output of a setup command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupChunk {
    pub stream: SetupStream,
    pub text: String,
}

/// The result of a setup command, with the start and the end of each output stream.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SetupReport {
    /// Counts from 1, in the order of `setup_commands`.
    pub number: u64,
    pub command: String,
    pub exit_code: i32,
    pub timed_out: bool,
    /// The start of a stream of which a part is omitted. Otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stdout_head: String,
    /// The end of the stream, or all of it.
    pub stdout: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_head: String,
    pub stderr: String,
    /// Number of bytes that the command wrote.
    pub stdout_total: u64,
    pub stderr_total: u64,
}
