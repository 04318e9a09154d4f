//! The agent's file tools over any [`Filesystem`]: one file per tool. Agents depend on the names of
//! the parameters, the limits and the messages, so they are part of the interface.
//!
//! A tool that fails has changed nothing and returns a [`ToolError`] with a stable code. It never
//! panics on an argument. [`Reply::changes`] lists its changes, which can be recorded and replayed.

mod apply_patch;
mod arguments;
mod copy;
mod edit;
mod error;
mod forms;
mod glob;
mod grep;
mod insert;
mod ls;
mod mkdir;
mod move_entry;
mod multi_edit;
mod read;
mod rm;
mod stat;
mod target;
mod text_file;
mod timestamp;
mod write;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::filesystem::Filesystem;
use crate::filesystem::change::Change;
use crate::limits::Limits;

use arguments::Arguments;
pub use error::ToolError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileTool {
    Ls,
    Read,
    Write,
    Edit,
    Glob,
    Grep,
    Rm,
    Move,
    Copy,
    Mkdir,
    Stat,
    MultiEdit,
}

impl FileTool {
    pub const ALL: [Self; 12] = [
        Self::Ls,
        Self::Read,
        Self::Write,
        Self::Edit,
        Self::Glob,
        Self::Grep,
        Self::Rm,
        Self::Move,
        Self::Copy,
        Self::Mkdir,
        Self::Stat,
        Self::MultiEdit,
    ];

    /// Returns true if a call may change files.
    pub const fn changes_files(self) -> bool {
        !matches!(self, Self::Ls | Self::Read | Self::Glob | Self::Grep | Self::Stat)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Ls => "ls",
            Self::Read => "read",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Glob => "glob",
            Self::Grep => "grep",
            Self::Rm => "rm",
            Self::Move => "move",
            Self::Copy => "copy",
            Self::Mkdir => "mkdir",
            Self::Stat => "stat",
            Self::MultiEdit => "multi_edit",
        }
    }
}

impl fmt::Display for FileTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for a name that is not a file tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is not a file tool; they are ls, read, write, edit, glob, grep, rm, move, copy, mkdir, stat, multi_edit"
)]
pub struct UnknownTool {
    name: String,
}

impl FromStr for FileTool {
    type Err = UnknownTool;

    fn from_str(name: &str) -> Result<Self, UnknownTool> {
        let unknown = || UnknownTool { name: name.chars().take(80).collect() };
        Self::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(unknown)
    }
}

/// One call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub tool: FileTool,
    pub arguments: &'a Value,
    pub limits: &'a Limits,
    pub now_millis: i64,
}

/// The answer to the agent, and the changes to the files.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub outcome: Result<Value, ToolError>,
    /// The message for the agent: the result, or the reason of the failure.
    pub message: String,
    /// Empty if the tool failed or changed nothing.
    pub changes: Vec<Change>,
}

/// The result of a tool that succeeded.
struct Done {
    result: Value,
    message: String,
    changes: Vec<Change>,
}

/// Runs one tool.
///
/// ```
/// use stead_fs::{Limits, MemoryFs, tools};
/// let mut fs = MemoryFs::new();
/// let arguments = serde_json::json!({"path": "a/b.txt", "content": "Hello there!"});
/// let limits = Limits::default();
/// let call = tools::Call { tool: tools::FileTool::Write, arguments: &arguments, limits: &limits, now_millis: 0 };
/// assert_eq!(tools::call(&mut fs, call).message, "Created a/b.txt (12 bytes).");
/// ```
pub fn call(fs: &mut dyn Filesystem, call: Call<'_>) -> Reply {
    let done = Arguments::parse(call.tool, call.arguments).and_then(|arguments| match call.tool {
        FileTool::Ls => ls::ls(fs, &arguments, call.limits),
        FileTool::Read => read::read(fs, &arguments, call.limits),
        FileTool::Write => write::write(fs, &arguments, call.limits, call.now_millis),
        FileTool::Edit => edit::edit(fs, &arguments, call.limits, call.now_millis),
        FileTool::Glob => glob::glob(fs, &arguments, call.limits),
        FileTool::Grep => grep::grep(fs, &arguments, call.limits),
        FileTool::Rm => rm::rm(fs, &arguments),
        FileTool::Move => move_entry::move_entry(fs, &arguments, call.limits, call.now_millis),
        FileTool::Copy => copy::copy(fs, &arguments, call.limits, call.now_millis),
        FileTool::Mkdir => mkdir::mkdir(fs, &arguments, call.limits, call.now_millis),
        FileTool::Stat => stat::stat(fs, &arguments, call.limits),
        FileTool::MultiEdit => multi_edit::multi_edit(fs, &arguments, call.limits, call.now_millis),
    });
    match done {
        Ok(Done { result, message, changes }) => Reply { outcome: Ok(result), message, changes },
        Err(error) => {
            let error = error.clipped();
            Reply { message: error.message.clone(), outcome: Err(error), changes: Vec::new() }
        }
    }
}

/// Formats the positions of results, counted from 1: `1-10`, or `none` for an empty range.
fn range(offset: usize, end: usize) -> String {
    if end > offset { format!("{}-{end}", offset + 1) } else { "none".to_owned() }
}

/// The sentence about the call that continues a cut answer. Its result has the same arguments as
/// `next`.
fn next_call(tool: &str, offset: usize) -> String {
    format!(" There are more: call {tool} again with offset {offset}.")
}

/// Shortens a text from the agent for a message.
fn brief(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Formats a count: `1 file`, `2 files`.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
