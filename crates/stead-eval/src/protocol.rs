//! Messages between an evaluator and its worker: JSON, one per line, over one socket.
//!
//! The worker sends requests and the evaluator answers. The evaluator does not trust the worker.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::params::WriteMode;

/// The first line that a worker receives, and the only one that it did not request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub code: String,
    /// Name → JSON text.
    pub globals: BTreeMap<String, String>,
    /// Path → content, for `vfs_reads`.
    pub reads: BTreeMap<String, String>,
    /// Contents of declared writes, in which `{name}` is replaced by a variable.
    pub templates: Vec<String>,
}

/// A message from the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Say {
    /// `read_text`, answered with [`Reply`].
    Read { path: String },
    /// `write_text`, answered with [`Reply`].
    Write { path: String, content: String, mode: WriteMode },
    /// The last message.
    Done(Box<Report>),
}

/// The answer to a read or a write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    Text { text: String },
    Written { characters: u64 },
    Refused { code: String, message: String },
}

/// Outcome of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Completed,
    /// An uncaught exception, or code that the gate refuses.
    Raised,
    TimedOut,
    OutOfMemory,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub ending: Ending,
    pub value_repr: Option<String>,
    pub stdout: String,
    pub stderr: String,
    /// Name → JSON text.
    pub globals: BTreeMap<String, String>,
    /// Variables whose JSON value is too long to return.
    pub too_long: Vec<String>,
    /// Variables that contain NaN or an infinity, which JSON cannot express.
    pub not_finite: Vec<String>,
    /// The templates with the variables filled in.
    pub contents: Vec<String>,
}
